"""Recharging: copies of answers in a SQLite file, brought up to date within limits of bytes and time.

from psoup_client import Client
from psoup_recharge import Store

with Store("recharge.db") as store, Client("127.0.0.1:7433") as client:
    store.add("delays", sql="SELECT * FROM flights WHERE dep_delay > 60 BEGIN (NOW - 1 DAY)")
    print(store.recharge(client, max_bytes=200_000))
    print(store.read("delays").to_pandas())          # no network: what the last recharge brought
"""

from psoup_recharge.entry import Entry
from psoup_recharge.profile import read_profile
from psoup_recharge.rounds import Recharge, Recharged
from psoup_recharge.sqlite import StoreError
from psoup_recharge.store import Store

__all__ = ["Entry", "Recharge", "Recharged", "Store", "StoreError", "read_profile"]
