"""How tools learn where the stand-ins are: by the environment, because several processes may serve one hall."""

GMAIL_ADDRESS = "TOOLHALL_EXAMPLES_GMAIL"
TEXTING_ADDRESS = "TOOLHALL_EXAMPLES_SMS"
