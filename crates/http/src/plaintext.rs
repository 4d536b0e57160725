//! Plain text on the port that speaks TLS: HTTP is answered with a sentence, as servers written in Go do.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::limits::MAX_PLAINTEXT_BYTES;

/// What TLS begins with: a handshake, an alert, or the hello of SSL 2, which gets an alert.
const TLS: [u8; 3] = [0x16, 0x15, 0x80];

/// The beginnings of requests that are answered. Go looks at as many bytes as a record of TLS has for its header.
const REQUESTS: [&[u8; 5]; 5] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"];

const ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Whether a client begins with anything but TLS. Waits for its first byte, which stays to be read.
pub(crate) async fn begins(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let read = stream.peek(&mut first).await?;
    Ok(read > 0 && !TLS.contains(&first[0]))
}

/// Answers a request, and closes the connection whatever it was.
pub(crate) async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    let mut begin = [0; 5];
    stream.read_exact(&mut begin).await?;
    if !REQUESTS.contains(&&begin) {
        return Ok(());
    }
    stream.write_all(ANSWER).await?;
    stream.shutdown().await?;
    // The system resets a connection that is closed with something unread, and the client would lose the answer.
    tokio::io::copy(&mut stream.take(MAX_PLAINTEXT_BYTES), &mut tokio::io::sink()).await?;
    Ok(())
}
