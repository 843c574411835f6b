"""Plans drawn as HTML and SVG that need no network and no script."""
