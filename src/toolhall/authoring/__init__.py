"""The tool author's API: `@tool`, Toolkit, BaseTool and Context."""
