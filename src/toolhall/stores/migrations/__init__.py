"""Database migrations: one module in `versions/` per revision, run by Alembic (sql.base.migrate)."""
