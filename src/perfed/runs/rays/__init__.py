"""Cells on a Ray cluster: `drive` hands them out and hears of them, `worker` trains one, `travel` carries its folder."""
