"""Test that each table has one writer, and that a job without its lease confirms no commit."""

import threading
import time
from datetime import timedelta

import boto3
import pytest
from catalog import schema
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.errors import Conflict, Unavailable
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_pipeline.failures import LeaseLost
from deltaic_pipeline.table.lease import acquire, holder_name

LOCATION = "s3://lake/patients"
SHORT = timedelta(seconds=0.9)


@pytest.fixture(scope="module")
def dynamo(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Dynamo:
    client = aws_session.client("dynamodb", endpoint_url=embedded_aws.endpoint)
    schema.create(client, "lease-catalog", "lease-tokens")
    return Dynamo(lambda: client)


@pytest.fixture
def leases(dynamo: Dynamo) -> Leases:
    return Leases("lease-catalog", dynamo)


class Unreachable(Leases):
    """Lease store whose renewals fail when `failing` is set."""

    failing = False

    def renew(self, location: str, holder: str, ttl: timedelta) -> None:
        if self.failing:
            raise Unavailable("the catalog does not answer")
        super().renew(location, holder, ttl)


def test_second_writer_is_refused_with_the_name_of_the_holder(leases: Leases) -> None:
    holder = holder_name("first")
    with acquire(leases, LOCATION, holder), pytest.raises(Conflict) as refusal, acquire(leases, LOCATION, "second"):
        pytest.fail("two writers hold one lease")
    assert holder in refusal.value.message
    assert LOCATION in refusal.value.message


def test_other_spelling_of_the_location_is_the_same_table(leases: Leases) -> None:
    with acquire(leases, LOCATION, "first"), pytest.raises(Conflict), acquire(leases, "s3a://lake/patients/", "second"):
        pytest.fail("two writers hold one lease")


def test_second_writer_waits_until_the_first_finishes(leases: Leases) -> None:
    order: list[str] = []
    messages: list[str] = []
    acquired = threading.Event()

    def first() -> None:
        with acquire(leases, LOCATION, "first"):
            acquired.set()
            time.sleep(0.5)
            order.append("first done")

    thread = threading.Thread(target=first)
    thread.start()
    acquired.wait(5)
    with acquire(leases, LOCATION, "second", wait=timedelta(seconds=20), waiting=messages.append):
        order.append("second starts")
    thread.join()
    assert order == ["first done", "second starts"]
    assert "first" in messages[0]


def test_lease_of_a_dead_writer_expires(leases: Leases) -> None:
    leases.acquire(LOCATION, "dead", SHORT)
    began = time.monotonic()
    with acquire(leases, LOCATION, "next", wait=timedelta(seconds=20)):
        assert time.monotonic() - began > 0.5


def test_lease_is_renewed_while_the_job_runs(leases: Leases) -> None:
    with acquire(leases, LOCATION, "long", ttl=SHORT) as lease:
        time.sleep(2 * SHORT.total_seconds())
        with pytest.raises(Conflict):
            leases.acquire(LOCATION, "other", SHORT)
        lease.confirm()
    leases.acquire(LOCATION, "other", SHORT)
    leases.release(LOCATION, "other")


def test_job_stops_before_a_lease_that_it_cannot_renew_expires(leases: Leases, dynamo: Dynamo) -> None:
    unreachable = Unreachable("lease-catalog", dynamo)
    ttl = timedelta(seconds=3)
    stopped = threading.Event()
    with acquire(unreachable, LOCATION, "cut off", ttl=ttl) as lease:
        lease.on_loss(stopped.set)
        unreachable.failing = True
        assert stopped.wait(10)
        with pytest.raises(Conflict, match="cut off"):  # no other job can write yet
            leases.acquire(LOCATION, "eager", ttl)
        with pytest.raises(LeaseLost, match="could not be renewed in time"):
            lease.confirm()


def test_job_with_a_stolen_lease_stops_and_confirms_no_commit(leases: Leases) -> None:
    stopped = threading.Event()
    with acquire(leases, LOCATION, "robbed", ttl=timedelta(seconds=3)) as lease:
        lease.on_loss(stopped.set)
        leases.release(LOCATION, "robbed")
        leases.acquire(LOCATION, "thief", timedelta(seconds=30))
        with pytest.raises(LeaseLost, match="thief"):
            lease.confirm()
        assert stopped.is_set()
    with pytest.raises(Conflict, match="thief"):  # the release did not affect the new holder
        leases.acquire(LOCATION, "other", SHORT)
    leases.release(LOCATION, "thief")


def test_action_added_after_the_loss_is_called_immediately(leases: Leases) -> None:
    with acquire(leases, LOCATION, "late") as lease:
        leases.release(LOCATION, "late")
        with pytest.raises(LeaseLost):
            lease.confirm()
        called: list[bool] = []
        lease.on_loss(lambda: called.append(True))
        assert called == [True]
