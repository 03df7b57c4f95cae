"""The environment that Alembic runs migrations in: the store's own connection and transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
