import numpy as np

import cotempo as ct


def test_forecasts_are_in_the_units_of_the_table() -> None:
    clients, _ = ct.make_networks(variables=3, clients=2, samples=200, seed=1)
    moved = {name: ct.Series.from_arrays(table.values + 50.0) for name, table in clients.items()}
    for method in (ct.FDBNL(compare=False, lambda_within=0.1, lambda_across=0.1), ct.OneRound(compare=False)):
        found = method.fit(moved).network.forecast(moved["client-0"], steps=30)
        np.testing.assert_allclose(found.values[-1], 50.0, atol=1.5)
