//! Random numbers that are the same on every platform, and a seed that nothing foresees.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A generator for buffer `stream` of a problem. `ChaCha8` is specified to the bit, and so is this use of it: the
/// seed fills the first eight bytes of its key, the buffer's position its stream number.
#[must_use]
pub(crate) fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(stream);
    rng
}

/// Seed of the orders of a duel, another one each time: the test of the rounds relies on orders that nothing foresees.
pub(crate) fn orders_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
