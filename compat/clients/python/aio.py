"""Driver of aiokafka."""

import asyncio
import sys

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError, for_code

from driver import dec, record, serve

BASE = {"bootstrap_servers": sys.argv[1]}
loop = asyncio.new_event_loop()
admin_client = None
members = {}


async def admin():
    global admin_client
    if admin_client is None:
        admin_client = AIOKafkaAdminClient(**BASE)
        await admin_client.start()
    return admin_client


async def hello(_):
    return {"client": "aiokafka", "version": aiokafka.__version__}


async def produce(r):
    codec = r.get("codec") or "none"
    p = AIOKafkaProducer(compression_type=None if codec == "none" else codec, enable_idempotence=bool(r.get("idempotent")), acks="all",
                         linger_ms=50, max_request_size=20_000_000, max_batch_size=1 << 20, request_timeout_ms=15000, **BASE)
    await p.start()
    try:
        futures = [await p.send(r["topic"], value=dec(x.get("v")), key=dec(x.get("k")), partition=x.get("p"),
                                timestamp_ms=x.get("t") or None, headers=[(k, dec(v)) for k, v in x.get("h") or []]) for x in r["records"]]
        out = []
        for f in futures:
            try:
                m = await f
                out.append({"p": m.partition, "o": m.offset})
            except KafkaError as e:
                out.append({"error": f"{type(e).__name__} {e}"})
        return {"acks": out}
    finally:
        await p.stop()


def told(m):
    return record(m.partition, m.offset, m.timestamp, m.key, m.value, m.headers)


async def consume(r):
    c = AIOKafkaConsumer(auto_offset_reset={"error": "none"}.get(r.get("reset", "error"), r.get("reset")), enable_auto_commit=False,
                         max_partition_fetch_bytes=10_000_000, **BASE)
    await c.start()
    try:
        tp, where = TopicPartition(r["topic"], r["partition"]), r["from"]
        c.assign([tp])
        if where == "earliest":
            await c.seek_to_beginning(tp)
        elif where == "latest":
            await c.seek_to_end(tp)
        elif where.startswith("ts:"):
            c.seek(tp, (await c.offsets_for_times({tp: int(where[3:])}))[tp].offset)
        else:
            c.seek(tp, int(where))
        got, end = [], loop.time() + r.get("timeout", 15000) / 1000
        while len(got) < r["count"] and loop.time() < end:
            for batch in (await c.getmany(timeout_ms=200, max_records=r["count"] - len(got))).values():
                got += [told(m) for m in batch]
        return {"records": got}
    finally:
        await c.stop()


async def offsets(r):
    c, tp = AIOKafkaConsumer(**BASE), TopicPartition(r["topic"], r["partition"])
    await c.start()
    try:
        out = {"start": (await c.beginning_offsets([tp]))[tp], "end": (await c.end_offsets([tp]))[tp]}
        if "t" in r:
            out["at"] = (await c.offsets_for_times({tp: r["t"]}))[tp].offset
        return out
    finally:
        await c.stop()


def check(pairs):
    """Raises the first refusal; this client leaves looking at them to its user."""
    for code, text in pairs:
        if code:
            raise for_code(code)(text)


async def create(r):
    a = await (await admin()).create_topics([NewTopic(r["topic"], r["partitions"], r["replication"], topic_configs=r.get("configs") or {})])
    check((t[1], t[2] if len(t) > 2 else "") for t in a.topic_errors)


async def delete(r):
    a = await (await admin()).delete_topics([r["topic"]])
    check((t[1], "") for t in a.topic_error_codes)


async def grow(r):
    a = await (await admin()).create_partitions({r["topic"]: NewPartitions(r["partitions"])})
    check((t[1], t[2]) for t in a.topic_errors)


async def alter(r):
    for a in await (await admin()).alter_configs([ConfigResource(ConfigResourceType.TOPIC, r["topic"], configs=r["configs"])]):
        check((t[0], t[1]) for t in a.resources)


async def configs(r):
    for a in await (await admin()).describe_configs([ConfigResource(ConfigResourceType.TOPIC, r["topic"])]):
        check((t[0], t[1]) for t in a.resources)
        return {"configs": {e[0]: e[1] for e in a.resources[0][4]}}


async def topics(_):
    return {"topics": {t["topic"]: len(t["partitions"]) for t in await (await admin()).describe_topics()}}


async def join(r):
    c = AIOKafkaConsumer(group_id=r["group"], group_instance_id=r.get("instance"), auto_offset_reset="earliest", enable_auto_commit=False,
                         session_timeout_ms=4000, heartbeat_interval_ms=500, metadata_max_age_ms=1000,
                         partition_assignment_strategy=[RangePartitionAssignor], **BASE)
    if r.get("pattern"):
        c.subscribe(pattern="^" + r["pattern"])
    else:
        c.subscribe([r["topic"]])
    # Starting waits for the group, which may wait for another member.
    members[r["member"]] = (c, loop.create_task(c.start()))


async def poll(r):
    c, started = members[r["member"]]
    got, end = [], loop.time() + r["timeout"] / 1000
    await asyncio.wait([started], timeout=r["timeout"] / 1000)
    if not started.done():
        return {"records": [], "assignment": []}
    started.result()
    while len(got) < r["count"] and loop.time() < end:
        left = max(int((end - loop.time()) * 1000), 1)
        for batch in (await c.getmany(timeout_ms=left, max_records=r["count"] - len(got))).values():
            got += [told(m) for m in batch]
    return {"records": got, "assignment": sorted([t.topic, t.partition] for t in c.assignment())}


async def commit(r):
    await members[r["member"]][0].commit()


async def committed(r):
    c = AIOKafkaConsumer(group_id=r["group"], enable_auto_commit=False, **BASE)
    await c.start()
    try:
        return {"offset": await c.committed(TopicPartition(r["topic"], r["partition"]))}
    finally:
        await c.stop()


async def leave(r):
    await members.pop(r["member"])[0].stop()


def sync(f):
    return lambda r: loop.run_until_complete(f(r))


ops = dict(hello=hello, produce=produce, consume=consume, offsets=offsets, create=create, delete=delete, grow=grow, alter=alter,
           configs=configs, topics=topics, join=join, poll=poll, commit=commit, committed=committed, leave=leave)
serve({name: sync(f) for name, f in ops.items()})
