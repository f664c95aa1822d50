//! Driver of rdkafka, the Rust crate around librdkafka: one JSON object a line in, one
//! a line out.

mod groups;
mod records;
mod topics;

use std::collections::HashMap;
use std::io::{BufRead, Write};

use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;
use rdkafka::config::{ClientConfig, FromClientConfig};
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde_json::{json, Value};

/// What an operation answers; an error is in the client's words, records may have
/// come before it.
pub type Answer = Result<Value, Refusal>;

pub struct Refusal {
    pub error: String,
    pub records: Vec<Value>,
}

impl From<KafkaError> for Refusal {
    fn from(e: KafkaError) -> Self {
        match e.rdkafka_error_code() {
            Some(code) => code.into(),
            None => e.to_string().into(),
        }
    }
}

impl From<RDKafkaErrorCode> for Refusal {
    fn from(code: RDKafkaErrorCode) -> Self {
        format!("{code:?}").into()
    }
}

impl From<String> for Refusal {
    fn from(error: String) -> Self {
        Refusal { error, records: Vec::new() }
    }
}

/// The driver: a broker's address, an administrator, and the members that have joined.
pub struct Driver {
    bootstrap: String,
    pub admin: AdminClient<DefaultClientContext>,
    pub members: HashMap<String, BaseConsumer>,
}

impl Driver {
    fn new(bootstrap: String) -> Result<Self, KafkaError> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &bootstrap).set("broker.address.family", "v4");
        let admin = AdminClient::from_config(&config)?;
        Ok(Driver { bootstrap, admin, members: HashMap::new() })
    }

    /// A client's settings: those that all have, and pairs of further ones.
    pub fn config(&self, more: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap).set("broker.address.family", "v4");
        for (key, value) in more {
            config.set(*key, *value);
        }
        config
    }

    fn answer(&mut self, r: &Value) -> Answer {
        match text(r, "op") {
            "hello" => {
                let (_, library) = rdkafka::util::get_rdkafka_version();
                Ok(json!({"client": "rdkafka", "version": format!("{} (librdkafka {library})", env!("RDKAFKA_VERSION"))}))
            }
            "produce" => self.produce(r),
            "consume" => self.consume(r),
            "offsets" => self.offsets(r),
            "create" => self.create(r),
            "delete" => self.delete(r),
            "grow" => self.grow(r),
            "alter" => self.alter(r),
            "configs" => self.configs(r),
            "topics" => self.topics(),
            "join" => self.join(r),
            "poll" => self.poll(r),
            "commit" => self.commit(r),
            "committed" => self.committed(r),
            "leave" => self.leave(r),
            op => Err(format!("no such operation: {op}").into()),
        }
    }
}

/// A text of a request, "" if it has none.
pub fn text<'a>(r: &'a Value, name: &str) -> &'a str {
    r[name].as_str().unwrap_or("")
}

/// A number of a request, or other if it has none.
pub fn number(r: &Value, name: &str, other: i64) -> i64 {
    r[name].as_i64().unwrap_or(other)
}

fn main() {
    let bootstrap = std::env::args().nth(1).expect("the first argument is host:port");
    let mut driver = Driver::new(bootstrap).expect("an administrator");
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.expect("a line")).expect("a JSON object");
        let answer = driver.answer(&request).unwrap_or_else(|e| json!({"error": e.error, "records": e.records}));
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}").and_then(|()| out.flush()).expect("somebody who reads");
    }
}
