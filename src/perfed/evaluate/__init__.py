"""How clients do: figures of a round, over clients, rounds and seeds."""
