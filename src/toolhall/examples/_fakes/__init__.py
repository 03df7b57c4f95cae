"""Fakes of the services that the example tools use: local servers that forget everything when they stop.

Tools learn their addresses from environment variables, because several processes may serve one hall.
"""

GMAIL_ADDRESS = "TOOLHALL_EXAMPLES_GMAIL"
SMS_ADDRESS = "TOOLHALL_EXAMPLES_SMS"
