//! Random numbers that are equal on every platform, and an unpredictable seed.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns the generator for buffer `stream` of a problem. `ChaCha8` is specified to the bit, and so is this use of it:
/// the seed fills the first eight bytes of the key, and the buffer's position is the stream number.
pub fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(stream);
    rng
}

/// Returns an unpredictable seed for the orders within a duel's rounds: the randomization test relies on such orders.
pub fn orders_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
