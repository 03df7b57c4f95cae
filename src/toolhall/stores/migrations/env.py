"""What Alembic runs around the steps: the connection is the store's own, and so is its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
