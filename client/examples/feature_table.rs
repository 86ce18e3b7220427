//! An online feature table for machine learning: a trainer writes one vector for each user, and servers of a model
//! look up all users of a request at once, straight from the table's memory.
//!
//! ```text
//! cargo run -p farside --example feature_table
//! ```

use farside::{Client, Result};

const USERS: usize = 2000;
/// Numbers in a vector: 256 bytes.
const WIDTH: usize = 64;
const REQUEST: usize = 32;

type Features = [f32; WIDTH];

#[tokio::main]
async fn main() -> Result<()> {
    let farside = farside::embedded()?;
    publish(&farside).await?;

    let mut found = 0;
    for request in 0..50 {
        // Some users of each request have no features yet.
        let users: Vec<_> = (0..REQUEST).map(|i| (request * 61 + i * 67) % (USERS + 100)).collect();
        let features = lookup(&farside, &users).await?;
        for (user, features) in users.iter().zip(&features) {
            match features {
                Some(features) => assert_eq!(features[0], *user as f32),
                None => assert!(*user >= USERS),
            }
        }
        found += features.iter().flatten().count();
    }
    println!("{found} of {} vectors found, over {}", 50 * REQUEST, farside.active());
    Ok(())
}

fn key(user: usize) -> String {
    format!("features/v3/{user}")
}

/// The trainer's side: all vectors, in batches. An answer for each item tells what failed, if anything did.
async fn publish(client: &Client) -> Result<()> {
    let users: Vec<_> = (0..USERS).collect();
    for batch in users.chunks(256) {
        let items: Vec<_> = batch
            .iter()
            .map(|user| {
                let features: Features = std::array::from_fn(|i| *user as f32 + i as f32);
                let bytes: Vec<u8> = features.iter().flat_map(|number| number.to_le_bytes()).collect();
                (key(*user), bytes)
            })
            .collect();
        client.put_many(&items).await.into_iter().collect::<Result<Vec<_>>>()?;
    }
    Ok(())
}

/// The model's side: all users of a request, `None` for those without features.
async fn lookup(client: &Client, users: &[usize]) -> Result<Vec<Option<Features>>> {
    let keys: Vec<_> = users.iter().map(|user| key(*user)).collect();
    let values = client.get_many(&keys).await.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(values.into_iter().map(|value| value.map(|value| decode(&value))).collect())
}

fn decode(bytes: &[u8]) -> Features {
    let (numbers, rest) = bytes.as_chunks::<4>();
    assert!(numbers.len() == WIDTH && rest.is_empty(), "another version of the features");
    std::array::from_fn(|i| f32::from_le_bytes(numbers[i]))
}
