-- Two roles for a fairlane store in PostgreSQL, with the least rights that do, in the database that this is run in:
--
--   fairlane_owner  owns the schema and migrates it
--   fairlane_app    what workers, servers and producers connect as: it reads and writes rows, and makes or changes no
--                   table; the audit it can only add to
--
-- As a superuser:              psql -d app -f roles.sql
-- Give both a password:        \password fairlane_owner   \password fairlane_app
-- Make the schema:             fairlane migrate --url postgresql://fairlane_owner@host/app
-- Once more, to narrow rights: psql -d app -f roles.sql
-- Then use it:                 FAIRLANE_URL=postgresql://fairlane_app@host/app
--
-- It may be run as often as you like. Tables of later versions are usable at once when `fairlane migrate` has made them.
-- For another schema (schema=jobs in the URL) put its name in the place of "fairlane" below, not in that of the roles.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'fairlane_owner') THEN
        CREATE ROLE fairlane_owner LOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'fairlane_app') THEN
        CREATE ROLE fairlane_app LOGIN;
    END IF;
END
$$;

CREATE SCHEMA IF NOT EXISTS fairlane AUTHORIZATION fairlane_owner;
GRANT USAGE ON SCHEMA fairlane TO fairlane_app;

-- What the owner makes from now on, and what there is.
ALTER DEFAULT PRIVILEGES FOR ROLE fairlane_owner IN SCHEMA fairlane
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO fairlane_app;
ALTER DEFAULT PRIVILEGES FOR ROLE fairlane_owner IN SCHEMA fairlane
    GRANT USAGE, SELECT ON SEQUENCES TO fairlane_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fairlane TO fairlane_app;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA fairlane TO fairlane_app;

-- Where less will do, once the tables are there.
DO $$
BEGIN
    IF to_regclass('fairlane.migration') IS NOT NULL THEN
        REVOKE ALL ON fairlane.migration, fairlane.gate_keeper, fairlane.audit FROM fairlane_app;
        GRANT SELECT ON fairlane.migration TO fairlane_app;
        GRANT UPDATE ON fairlane.gate_keeper TO fairlane_app;  -- nobody updates it: locking it asks for this
        GRANT SELECT, INSERT ON fairlane.audit TO fairlane_app;
    END IF;
END
$$;
