//! Producing and consuming without a group.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::prelude::{Engine, BASE64_STANDARD};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, DeliveryResult, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use serde_json::{json, Value};

use crate::{number, text, Answer, Driver, Refusal};

/// How long single requests may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A consumer asked for so many records wants all there are.
const ALL: usize = 1 << 30;

/// Collects what became of each record, by its place in the request.
struct Acks(Arc<Mutex<Vec<Value>>>);

impl ClientContext for Acks {}

impl ProducerContext for Acks {
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, at: Box<usize>) {
        self.0.lock().unwrap()[*at] = match result {
            Ok(m) => json!({"p": m.partition(), "o": m.offset()}),
            Err((e, _)) => json!({"error": Refusal::from(e.clone()).error}),
        };
    }
}

/// Bytes of a base64 text; null is none.
fn decoded(v: &Value) -> Option<Vec<u8>> {
    v.as_str().map(|s| BASE64_STANDARD.decode(s).expect("base64"))
}

fn encoded(b: Option<&[u8]>) -> Value {
    b.map_or(Value::Null, |b| BASE64_STANDARD.encode(b).into())
}

/// A record as it is told.
pub fn told(m: &BorrowedMessage<'_>) -> Value {
    let headers: Vec<Value> = m.headers().map_or(Vec::new(), |h| h.iter().map(|h| json!([h.key, encoded(h.value)])).collect());
    json!({"p": m.partition(), "o": m.offset(), "t": m.timestamp().to_millis().unwrap_or(-1), "k": encoded(m.key()), "v": encoded(m.payload()), "h": headers})
}

impl Driver {
    pub fn produce(&mut self, r: &Value) -> Answer {
        let codec = if text(r, "codec").is_empty() { "none" } else { text(r, "codec") };
        let config = self.config(&[
            ("compression.type", codec),
            ("enable.idempotence", if r["idempotent"] == true { "true" } else { "false" }),
            ("acks", "all"),
            ("linger.ms", "50"),
            ("message.max.bytes", "20000000"),
            ("message.timeout.ms", &number(r, "timeout", 15000).to_string()),
            ("allow.auto.create.topics", "true"),
        ]);
        let none = Vec::new();
        let records = r["records"].as_array().unwrap_or(&none);
        let acks = Arc::new(Mutex::new(vec![Value::Null; records.len()]));
        let producer: BaseProducer<Acks> = BaseProducer::from_config_and_context(&config, Acks(acks.clone()))?;
        for (at, record) in records.iter().enumerate() {
            send(&producer, text(r, "topic"), record, at)?;
        }
        producer.flush(Duration::from_secs(30))?;
        let acks = acks.lock().unwrap().clone();
        Ok(json!({"acks": acks}))
    }

    pub fn consume(&mut self, r: &Value) -> Answer {
        let reset = if text(r, "reset").is_empty() { "error" } else { text(r, "reset") };
        let consumer: BaseConsumer = self
            .config(&[
                ("group.id", "unused"),
                ("enable.auto.commit", "false"),
                ("auto.offset.reset", reset),
                ("enable.partition.eof", "true"),
                ("fetch.message.max.bytes", "10000000"),
                ("allow.auto.create.topics", "false"),
            ])
            .create()?;
        let mut assignment = TopicPartitionList::new();
        let from = start_of(&consumer, r)?;
        assignment.add_partition_offset(text(r, "topic"), number(r, "partition", 0) as i32, from)?;
        consumer.assign(&assignment)?;
        let count = number(r, "count", 0) as usize;
        let patience = Duration::from_millis(number(r, "timeout", 15000) as u64);
        let mut records = Vec::new();
        while records.len() < count {
            match consumer.poll(patience) {
                None => break,
                Some(Ok(m)) => records.push(told(&m)),
                Some(Err(KafkaError::PartitionEOF(_))) if count >= ALL => break,
                Some(Err(KafkaError::PartitionEOF(_))) => {}
                Some(Err(e)) => return Err(Refusal { records, ..e.into() }),
            }
        }
        Ok(json!({"records": records}))
    }

    pub fn offsets(&mut self, r: &Value) -> Answer {
        let consumer: BaseConsumer = self.config(&[("group.id", "unused")]).create()?;
        let (start, end) = consumer.fetch_watermarks(text(r, "topic"), number(r, "partition", 0) as i32, PATIENCE)?;
        let mut answer = json!({"start": start, "end": end});
        if let Some(t) = r["t"].as_i64() {
            answer["at"] = match at_time(&consumer, r, t)? {
                Offset::Offset(o) => o.into(),
                _ => (-1).into(),
            };
        }
        Ok(answer)
    }
}

fn send(producer: &BaseProducer<Acks>, topic: &str, record: &Value, at: usize) -> Result<(), KafkaError> {
    let (key, value) = (decoded(&record["k"]), decoded(&record["v"]));
    let mut out = BaseRecord::<[u8], [u8], _>::with_opaque_to(topic, Box::new(at)).partition(number(record, "p", -1) as i32);
    if let Some(key) = &key {
        out = out.key(key);
    }
    if let Some(value) = &value {
        out = out.payload(value);
    }
    if let Some(t) = record["t"].as_i64() {
        out = out.timestamp(t);
    }
    if let Some(pairs) = record["h"].as_array() {
        let mut headers = OwnedHeaders::new();
        for pair in pairs {
            headers = headers.insert(Header { key: pair[0].as_str().unwrap_or(""), value: decoded(&pair[1]).as_ref() });
        }
        out = out.headers(headers);
    }
    producer.send(out).map_err(|(e, _)| e)
}

/// The offset that a request starts from.
fn start_of(consumer: &BaseConsumer, r: &Value) -> Result<Offset, Refusal> {
    match text(r, "from") {
        "earliest" => Ok(Offset::Beginning),
        "latest" => Ok(Offset::End),
        from => match from.strip_prefix("ts:") {
            Some(t) => at_time(consumer, r, t.parse().expect("milliseconds")),
            None => Ok(Offset::Offset(from.parse().expect("an offset"))),
        },
    }
}

/// The first offset at a time or later.
fn at_time(consumer: &BaseConsumer, r: &Value, t: i64) -> Result<Offset, Refusal> {
    let (topic, partition) = (text(r, "topic"), number(r, "partition", 0) as i32);
    let mut times = TopicPartitionList::new();
    times.add_partition_offset(topic, partition, Offset::Offset(t))?;
    let found = consumer.offsets_for_times(times, PATIENCE)?;
    Ok(found.find_partition(topic, partition).map_or(Offset::End, |p| p.offset()))
}
