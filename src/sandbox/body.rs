//! Bodies that are compressed, truncated or padded on purpose.

use std::io::Write;

use axum::body::{Body, Bytes};
use futures_util::{StreamExt, stream};

pub(crate) fn compressed(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Half of the body, then a broken connection.
pub(crate) fn broken(body: &str) -> Body {
    let half = Bytes::copy_from_slice(&body.as_bytes()[..body.len() / 2]);
    Body::from_stream(stream::unfold(Some(half), |left| async move {
        match left {
            Some(half) if !half.is_empty() => Some((Ok(half), Some(Bytes::new()))),
            Some(_) => {
                // The first half leaves before the connection breaks: hyper flushes when the body is not ready.
                tokio::task::yield_now().await;
                Some((Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)), None))
            }
            None => None,
        }
    }))
}

/// The body with padding before its last brace; the padding is never held in memory.
pub(crate) fn padded(body: &str, bytes: u64) -> Body {
    const BLOCK: &[u8] = &[b' '; 64 << 10];
    let end = body.len().saturating_sub(1);
    let (front, back) = (body[..end].to_string(), body[end..].to_string());
    let spaces = stream::unfold(bytes, |left| async move {
        let block = left.min(BLOCK.len() as u64);
        (block > 0).then(|| (Ok(Bytes::from_static(&BLOCK[..block as usize])), left - block))
    });
    let parts = stream::iter([Ok(Bytes::from(front))]);
    let tail = stream::iter([Ok::<_, std::io::Error>(Bytes::from(back))]);
    Body::from_stream(parts.chain(spaces).chain(tail))
}
