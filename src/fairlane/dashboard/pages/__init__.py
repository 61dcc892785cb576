"""The pages, one module a subject: what a page shows is gathered here, how it looks is in the templates."""
