"""The engine Flower: link, nodes, keys and processes of a deployment; nothing outside this package imports flwr."""
