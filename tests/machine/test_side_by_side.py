"""Networks side by side: what ends their threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from prism.machine.executors import completed, computing, end_where_stopped
from prism.machine.run import Run


def endless(begun: threading.Event) -> None:
    """A network that computes until its thread is stopped."""
    network = nn.Identity()
    end_where_stopped(network)
    while True:
        network(torch.zeros(()))
        begun.set()


def test_an_error_in_one_network_ends_the_others_at_their_next_layer():
    begun = threading.Event()

    def compute(number: int) -> None:
        if number == 0:
            endless(begun)
        begun.wait(60)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), computing(Run(device="cpu"), 2, 2) as threads:
        list(completed(threads, compute, range(2)))


def test_an_executor_may_have_a_device_that_this_machine_has_not():
    with ThreadPoolExecutor() as threads, computing(Run(device="cuda:99", executor=threads), 2) as found:
        assert found is threads
