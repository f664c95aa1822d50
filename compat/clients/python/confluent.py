"""Driver of confluent-kafka, which is librdkafka."""

import sys

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, AlterConfigOpType, NewPartitions, NewTopic, OffsetSpec

from driver import dec, record, serve

BOOTSTRAP = sys.argv[1]
BASE = {"bootstrap.servers": BOOTSTRAP, "broker.address.family": "v4"}
members = {}


# An administrator that is collected takes its unfinished requests along.
ADMIN = AdminClient(dict(BASE))


def hello(_):
    return {"client": "confluent-kafka", "version": f"{ck.__version__} (librdkafka {ck.libversion()[0]})"}


def produce(r):
    conf = dict(BASE)
    conf.update({
        "compression.type": r.get("codec") or "none",
        "enable.idempotence": bool(r.get("idempotent")),
        "acks": r.get("acks", "all"),
        "linger.ms": 50,
        "message.max.bytes": 20_000_000,
        "message.timeout.ms": r.get("timeout", 15000),
        "allow.auto.create.topics": True,
    })
    p = ck.Producer(conf)
    out = [None] * len(r["records"])

    def report(i):
        def done(err, msg):
            out[i] = {"error": err.name()} if err else {"p": msg.partition(), "o": msg.offset()}
        return done

    for i, x in enumerate(r["records"]):
        p.produce(
            r["topic"], key=dec(x.get("k")), value=dec(x.get("v")), partition=x.get("p", -1), timestamp=x.get("t") or 0,
            headers=[(k, dec(v)) for k, v in x.get("h") or []], on_delivery=report(i))
    left = p.flush(30)
    return {"acks": out} if left == 0 else {"error": f"{left} records were not sent"}


def start_of(c, topic, partition, where):
    if where == "earliest":
        return ck.OFFSET_BEGINNING
    if where == "latest":
        return ck.OFFSET_END
    if where.startswith("ts:"):
        return c.offsets_for_times([ck.TopicPartition(topic, partition, int(where[3:]))], timeout=10)[0].offset
    return int(where)


def consume(r):
    conf = dict(BASE)
    conf.update({"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": r.get("reset", "error"), "enable.partition.eof": True,
                 "fetch.message.max.bytes": 10_000_000, "allow.auto.create.topics": False})
    c = ck.Consumer(conf)
    try:
        c.assign([ck.TopicPartition(r["topic"], r["partition"], start_of(c, r["topic"], r["partition"], r["from"]))])
        got = []
        while len(got) < r["count"]:
            m = c.poll(r.get("timeout", 15000) / 1000)
            if m is None:
                break
            if m.error():
                if m.error().code() == ck.KafkaError._PARTITION_EOF:
                    if r["count"] >= 1 << 30:
                        break
                    continue
                return {"error": m.error().name(), "records": got}
            got.append(told(m))
        return {"records": got}
    finally:
        c.close()


def told(m):
    return record(m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers())


def offsets(r):
    tp = ck.TopicPartition(r["topic"], r["partition"])
    c = ck.Consumer({**BASE, "group.id": "unused"})
    try:
        low, high = c.get_watermark_offsets(tp, timeout=10)
        out = {"start": low, "end": high}
        if "t" in r:
            out["at"] = c.offsets_for_times([ck.TopicPartition(r["topic"], r["partition"], r["t"])], timeout=10)[0].offset
        return out
    finally:
        c.close()


def wait(futures):
    for f in futures.values():
        try:
            f.result(15)
        except ck.KafkaException as e:
            return {"error": e.args[0].name()}
    return {}


def create(r):
    return wait(ADMIN.create_topics([NewTopic(r["topic"], r["partitions"], r["replication"], config=r.get("configs") or {})]))


def delete(r):
    return wait(ADMIN.delete_topics([r["topic"]]))


def grow(r):
    return wait(ADMIN.create_partitions([NewPartitions(r["topic"], r["partitions"])]))


def alter(r):
    entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in r["configs"].items()]
    return wait(ADMIN.incremental_alter_configs([ConfigResource(ConfigResource.Type.TOPIC, r["topic"], incremental_configs=entries)]))


def configs(r):
    for f in ADMIN.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, r["topic"])]).values():
        return {"configs": {k: v.value for k, v in f.result(10).items()}}


def topics(_):
    return {"topics": {t.topic: len(t.partitions) for t in ADMIN.list_topics(timeout=10).topics.values()}}


def join(r):
    conf = dict(BASE)
    conf.update({"group.id": r["group"], "auto.offset.reset": "earliest", "enable.auto.commit": False,
                 "topic.metadata.refresh.interval.ms": 1000, "group.protocol": r.get("protocol", "classic")})
    if r.get("protocol", "classic") == "classic":
        conf.update({"session.timeout.ms": 4000, "heartbeat.interval.ms": 500,
                     "partition.assignment.strategy": r.get("strategy") or "range"})
    if r.get("instance"):
        conf["group.instance.id"] = r["instance"]
    c = ck.Consumer(conf)
    c.subscribe(["^" + r["pattern"]] if r.get("pattern") else [r["topic"]])
    members[r["member"]] = c


def poll(r):
    c, got = members[r["member"]], []
    budget = r["timeout"] / 1000
    while len(got) < r["count"]:
        m = c.poll(budget)
        if m is None:
            break
        if m.error():
            if m.error().retriable() or m.error().code() == ck.KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            return {"error": m.error().name(), "records": got}
        got.append(told(m))
    return {"records": got, "assignment": sorted([t.topic, t.partition] for t in c.assignment())}


def commit(r):
    c = members[r["member"]]
    try:
        c.commit(asynchronous=False)
    except ck.KafkaException as e:
        if e.args[0].code() != ck.KafkaError._NO_OFFSET:
            raise
    return {}


def committed(r):
    c = ck.Consumer({**BASE, "group.id": r["group"]})
    try:
        return {"offset": c.committed([ck.TopicPartition(r["topic"], r["partition"])], timeout=10)[0].offset}
    finally:
        c.close()


def leave(r):
    members.pop(r["member"]).close()


if __name__ == "__main__":
    serve(dict(hello=hello, produce=produce, consume=consume, offsets=offsets, create=create, delete=delete, grow=grow, alter=alter,
               configs=configs, topics=topics, join=join, poll=poll, commit=commit, committed=committed, leave=leave))
