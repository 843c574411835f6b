"""A Chromium that draws pages without a screen."""

import shutil

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
"""Its path, None where there is none."""
