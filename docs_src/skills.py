"""A folder of skills."""

from pathlib import Path

from toolhall import Skills, Toolhall

skills = Skills(Path(__file__).parent / "skills", prefix="acme", level=1)
hall = Toolhall(skills)
