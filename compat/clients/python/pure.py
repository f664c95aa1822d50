"""Driver of kafka-python."""

import logging
import sys
import time

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from driver import dec, record, serve

logging.basicConfig(format="%(asctime)s %(name)s %(message)s")
logging.getLogger("kafka.coordinator").setLevel(logging.INFO)

BASE = {"bootstrap_servers": sys.argv[1]}
admin_client = None
members = {}


def admin():
    global admin_client
    if admin_client is None:
        admin_client = KafkaAdminClient(**BASE)
    return admin_client


def hello(_):
    return {"client": "kafka-python", "version": kafka.__version__}


def produce(r):
    codec = r.get("codec") or "none"
    p = KafkaProducer(
        compression_type=None if codec == "none" else codec, enable_idempotence=bool(r.get("idempotent")), acks="all", linger_ms=50,
        max_request_size=20_000_000, batch_size=1 << 20, delivery_timeout_ms=15000, request_timeout_ms=10000, **BASE)
    try:
        futures = [p.send(r["topic"], value=dec(x.get("v")), key=dec(x.get("k")), headers=[(k, dec(v)) for k, v in x.get("h") or []],
                          partition=x.get("p"), timestamp_ms=x.get("t") or None) for x in r["records"]]
        p.flush(20)
        out = []
        for f in futures:
            try:
                m = f.get(20)
                out.append({"p": m.partition, "o": m.offset})
            except kafka.errors.KafkaError as e:
                out.append({"error": f"{type(e).__name__} {e}"})
        return {"acks": out}
    finally:
        p.close()


def told(m):
    return record(m.partition, m.offset, m.timestamp, m.key, m.value, m.headers)


def consume(r):
    c = KafkaConsumer(auto_offset_reset={"error": "none"}.get(r.get("reset", "error"), r.get("reset")), enable_auto_commit=False,
                      allow_auto_create_topics=False, max_partition_fetch_bytes=10_000_000, **BASE)
    try:
        tp, where = TopicPartition(r["topic"], r["partition"]), r["from"]
        c.assign([tp])
        if where == "earliest":
            c.seek_to_beginning(tp)
        elif where == "latest":
            c.seek_to_end(tp)
            c.position(tp)
        elif where.startswith("ts:"):
            c.seek(tp, c.offsets_for_times({tp: int(where[3:])})[tp].offset)
        else:
            c.seek(tp, int(where))
        got, end = [], time.monotonic() + r.get("timeout", 15000) / 1000
        while len(got) < r["count"] and time.monotonic() < end:
            for batch in c.poll(timeout_ms=200, max_records=r["count"] - len(got)).values():
                got += [told(m) for m in batch]
        return {"records": got}
    finally:
        c.close()


def offsets(r):
    c, tp = KafkaConsumer(**BASE), TopicPartition(r["topic"], r["partition"])
    try:
        out = {"start": c.beginning_offsets([tp])[tp], "end": c.end_offsets([tp])[tp]}
        if "t" in r:
            out["at"] = c.offsets_for_times({tp: r["t"]})[tp].offset
        return out
    finally:
        c.close()


def create(r):
    admin().create_topics([NewTopic(r["topic"], r["partitions"], r["replication"], topic_configs=r.get("configs") or {})])


def delete(r):
    admin().delete_topics([r["topic"]])


def grow(r):
    admin().create_partitions({r["topic"]: r["partitions"]})


def alter(r):
    done = admin().alter_configs([ConfigResource(ConfigResourceType.TOPIC, r["topic"], configs=r["configs"])])
    result = next(iter(done.values()))[r["topic"]]
    if result not in (None, "OK"):
        raise RuntimeError(result)


def configs(r):
    got = admin().describe_configs([ConfigResource(ConfigResourceType.TOPIC, r["topic"])], config_filter="all")
    found = next(iter(got.values()))[r["topic"]]
    if not found:
        raise LookupError("no settings; the client doesn't say why")
    return {"configs": {k: v["value"] for k, v in found.items()}}


def topics(_):
    return {"topics": {t["name"]: len(t["partitions"]) for t in admin().describe_topics()}}


def join(r):
    conf = dict(BASE)
    if r.get("instance"):
        conf["group_instance_id"] = r["instance"]
    assignor = CooperativeStickyAssignor if r.get("strategy") else RangePartitionAssignor
    c = KafkaConsumer(group_id=r["group"], auto_offset_reset="earliest", enable_auto_commit=False, session_timeout_ms=4000,
                      heartbeat_interval_ms=500, metadata_max_age_ms=1000, partition_assignment_strategy=[assignor], **conf)
    if r.get("pattern"):
        c.subscribe(pattern="^" + r["pattern"])
    else:
        c.subscribe([r["topic"]])
    members[r["member"]] = c


def poll(r):
    c, got, end = members[r["member"]], [], time.monotonic() + r["timeout"] / 1000
    while len(got) < r["count"] and time.monotonic() < end:
        left = max(int((end - time.monotonic()) * 1000), 1)
        for batch in c.poll(timeout_ms=left, max_records=r["count"] - len(got)).values():
            got += [told(m) for m in batch]
    return {"records": got, "assignment": sorted([t.topic, t.partition] for t in c.assignment())}


def commit(r):
    members[r["member"]].commit()


def committed(r):
    c = KafkaConsumer(group_id=r["group"], **BASE)
    try:
        return {"offset": c.committed(TopicPartition(r["topic"], r["partition"]))}
    finally:
        c.close(autocommit=False)


def leave(r):
    members.pop(r["member"]).close(autocommit=False)


serve(dict(hello=hello, produce=produce, consume=consume, offsets=offsets, create=create, delete=delete, grow=grow, alter=alter,
           configs=configs, topics=topics, join=join, poll=poll, commit=commit, committed=committed, leave=leave))
