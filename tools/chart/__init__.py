"""What of the Helm chart is made from elsewhere: the schema of its values, and its README's table.

`python -m tools.chart` writes them; a test holds them to what they are made from. Alerts and boards
are no copies: the chart's folder has links to theirs, which helm follows when it packs the chart.
"""
