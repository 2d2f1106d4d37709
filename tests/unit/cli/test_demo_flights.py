"""The demonstration's data and the answer that it compares with."""

import pytest

from api.demo.flights import Answer, Flights, last_of_routes, load_flights


@pytest.fixture(scope="module")
def flights() -> Flights:
    """All of them."""
    return load_flights()


def test_the_whole_year_is_there_and_every_id_is_unique(flights: Flights) -> None:
    """336,776 flights, as the data's authors say, each with an id of its own."""
    assert len(flights) == 336_776
    assert len(set(flights.ids)) == len(flights.payloads) == len(flights)


def test_subjects_are_the_routes(flights: Flights) -> None:
    """Origin, destination, carrier; JFK's fit into one multi_last."""
    assert flights.subjects[0] == "flights.EWR.IAH.UA"
    routes = {subject for subject in flights.subjects if subject.startswith("flights.JFK.")}
    assert 100 < len(routes) <= 1024


@pytest.mark.parametrize("as_of", [0, 1, 3, 1000, 168_388])
def test_the_expected_answer_is_what_a_plain_loop_finds(as_of: int, flights: Flights) -> None:
    """Grouping by pandas and remembering the last in a loop agree."""
    last: dict[str, Answer] = {}
    for place in range(as_of):
        if flights.subjects[place].startswith("flights.JFK."):
            last[flights.subjects[place]] = Answer(place + 1, flights.payloads[place])
    assert last_of_routes(flights, "JFK", as_of) == last
