"""SQL stores: tables and statements in SQLAlchemy Core, one set for every SQL engine."""
