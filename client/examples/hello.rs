//! The shortest program: a server, a client, a value.
//!
//! ```text
//! cargo run -p farside --example hello
//! ```

#[tokio::main]
async fn main() -> farside::Result<()> {
    // With a server of its own; `Client::connect("127.0.0.1:7471").await?` reaches another.
    let farside = farside::embedded()?;
    farside.put("greeting", "hello from the far side").await?;
    let value = farside.get("greeting").await?.expect("it was just stored");
    println!("{}", String::from_utf8_lossy(&value));
    println!("over {}", farside.active());
    Ok(())
}
