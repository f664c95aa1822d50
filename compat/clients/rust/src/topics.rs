//! What an administrator asks for.

use std::time::Duration;

use futures_executor::block_on;
use rdkafka::admin::{AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication, TopicResult};
use rdkafka::error::KafkaError;
use serde_json::{json, Map, Value};

use crate::{number, text, Answer, Driver};

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(Duration::from_secs(15)))
}

/// The settings of a request.
fn settings(r: &Value) -> Vec<(&str, &str)> {
    r["configs"].as_object().map_or(Vec::new(), |m| m.iter().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or(""))).collect())
}

/// What became of one topic.
fn done(results: Result<Vec<TopicResult>, KafkaError>) -> Answer {
    for result in results? {
        result.map_err(|(_, code)| code)?;
    }
    Ok(json!({}))
}

impl Driver {
    pub fn create(&mut self, r: &Value) -> Answer {
        let mut topic = NewTopic::new(text(r, "topic"), number(r, "partitions", 1) as i32, TopicReplication::Fixed(number(r, "replication", 1) as i32));
        for (key, value) in settings(r) {
            topic = topic.set(key, value);
        }
        done(block_on(self.admin.create_topics([&topic], &options())))
    }

    pub fn delete(&mut self, r: &Value) -> Answer {
        done(block_on(self.admin.delete_topics(&[text(r, "topic")], &options())))
    }

    pub fn grow(&mut self, r: &Value) -> Answer {
        let partitions = NewPartitions::new(text(r, "topic"), number(r, "partitions", 1) as usize);
        done(block_on(self.admin.create_partitions([&partitions], &options())))
    }

    /// By the older AlterConfigs, which replaces all that a topic has: the crate has
    /// no other.
    pub fn alter(&mut self, r: &Value) -> Answer {
        let mut change = AlterConfig::new(ResourceSpecifier::Topic(text(r, "topic")));
        for (key, value) in settings(r) {
            change = change.set(key, value);
        }
        for result in block_on(self.admin.alter_configs([&change], &options()))? {
            result.map_err(|(_, code)| code)?;
        }
        Ok(json!({}))
    }

    pub fn configs(&mut self, r: &Value) -> Answer {
        let mut all = Map::new();
        for resource in block_on(self.admin.describe_configs([&ResourceSpecifier::Topic(text(r, "topic"))], &options()))? {
            for entry in resource?.entries {
                all.insert(entry.name, entry.value.into());
            }
        }
        if all.is_empty() {
            // The crate drops the error of a description.
            return Err("the topic has no settings".to_string().into());
        }
        Ok(json!({"configs": all}))
    }

    pub fn topics(&mut self) -> Answer {
        let metadata = self.admin.inner().fetch_metadata(None, Duration::from_secs(10))?;
        let topics: Map<String, Value> = metadata.topics().iter().map(|t| (t.name().to_string(), t.partitions().len().into())).collect();
        Ok(json!({"topics": topics}))
    }
}
