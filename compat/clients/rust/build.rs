//! Tells the driver the version of the crate that it drives, as Cargo.lock pins it.

fn main() {
    let lock = std::fs::read_to_string("Cargo.lock").expect("Cargo.lock");
    let package = lock.split("[[package]]").find(|p| p.contains("name = \"rdkafka\"")).expect("rdkafka in Cargo.lock");
    let version = package.lines().find_map(|l| l.strip_prefix("version = ")).expect("its version");
    println!("cargo:rerun-if-changed=Cargo.lock");
    println!("cargo:rustc-env=RDKAFKA_VERSION={}", version.trim_matches('"'));
}
