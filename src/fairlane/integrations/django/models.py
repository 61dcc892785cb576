"""No models: Django tells only apps with this module that it is about to migrate."""
