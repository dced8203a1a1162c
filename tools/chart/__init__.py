"""What of the Helm chart is made from elsewhere: copies of alerts and boards, the schema of its
values, and the table in its README.

`python -m tools.chart` writes them; a test holds them to what they are made from. `helm package`
does not follow links and takes nothing from outside of the chart's folder, hence the copies.
"""
