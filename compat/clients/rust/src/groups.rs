//! Members of consumer groups.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{json, Value};

use crate::records::told;
use crate::{number, text, Answer, Driver, Refusal};

impl Driver {
    pub fn join(&mut self, r: &Value) -> Answer {
        let protocol = if text(r, "protocol").is_empty() { "classic" } else { text(r, "protocol") };
        let mut config = self.config(&[
            ("group.id", text(r, "group")),
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "false"),
            ("topic.metadata.refresh.interval.ms", "1000"),
            ("group.protocol", protocol),
        ]);
        if protocol == "classic" {
            let strategy = if text(r, "strategy").is_empty() { "range" } else { text(r, "strategy") };
            config.set("session.timeout.ms", "4000").set("heartbeat.interval.ms", "500").set("partition.assignment.strategy", strategy);
        }
        if !text(r, "instance").is_empty() {
            config.set("group.instance.id", text(r, "instance"));
        }
        let consumer: BaseConsumer = config.create()?;
        let pattern = format!("^{}", text(r, "pattern"));
        consumer.subscribe(&[if pattern == "^" { text(r, "topic") } else { &pattern }])?;
        self.members.insert(text(r, "member").to_string(), consumer);
        Ok(json!({}))
    }

    pub fn poll(&mut self, r: &Value) -> Answer {
        let consumer = self.member(r)?;
        let patience = Duration::from_millis(number(r, "timeout", 0) as u64);
        let count = number(r, "count", 0) as usize;
        let mut records = Vec::new();
        while records.len() < count {
            match consumer.poll(patience) {
                None => break,
                Some(Ok(m)) => records.push(told(&m)),
                // The topic may come yet, or come back.
                Some(Err(e)) if matches!(e.rdkafka_error_code(), Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::BrokerTransportFailure)) => {}
                Some(Err(e)) => return Err(Refusal { records, ..e.into() }),
            }
        }
        let assignment = consumer.assignment()?;
        let mut owned: Vec<(String, i32)> = assignment.elements().iter().map(|p| (p.topic().to_string(), p.partition())).collect();
        owned.sort();
        Ok(json!({"records": records, "assignment": owned}))
    }

    pub fn commit(&mut self, r: &Value) -> Answer {
        match self.member(r)?.commit_consumer_state(CommitMode::Sync) {
            Err(e) if e.rdkafka_error_code() != Some(RDKafkaErrorCode::NoOffset) => Err(e.into()),
            _ => Ok(json!({})),
        }
    }

    pub fn committed(&mut self, r: &Value) -> Answer {
        let consumer: BaseConsumer = self.config(&[("group.id", text(r, "group"))]).create()?;
        let (topic, partition) = (text(r, "topic"), number(r, "partition", 0) as i32);
        let mut wanted = TopicPartitionList::new();
        wanted.add_partition(topic, partition);
        let found = consumer.committed_offsets(wanted, Duration::from_secs(10))?;
        Ok(json!({"offset": match found.find_partition(topic, partition).map(|p| p.offset()) {
            Some(Offset::Offset(o)) => o,
            _ => -1,
        }}))
    }

    pub fn leave(&mut self, r: &Value) -> Answer {
        self.members.remove(text(r, "member")); // which closes it
        Ok(json!({}))
    }

    fn member(&self, r: &Value) -> Result<&BaseConsumer, Refusal> {
        self.members.get(text(r, "member")).ok_or_else(|| format!("no member {}", text(r, "member")).into())
    }
}
