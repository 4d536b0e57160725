//! A list, written piece by piece while it is sent, from bytes that are there
//! already: no list is in memory a second time, whatever its size.

use std::sync::Arc;

use bytes::Bytes;
use sternpost_cache::Object;
use sternpost_verbs::{Listed, served::Served};

/// Bytes of one piece: what TLS takes at once. An object that is larger makes
/// a larger piece.
const PIECE_BYTES: usize = 64 * 1024;

const TAIL: &[u8] = b"]}\n";

#[derive(Debug)]
pub struct ListBody {
    items: std::vec::IntoIter<Arc<Object>>,
    /// What stands before the next item.
    before: Vec<u8>,
    /// What every item begins with. Items of custom resources say what they are.
    begin: Vec<u8>,
    left: usize,
}

impl ListBody {
    /// The list in JSON, compact and with a newline at its end.
    pub fn new(served: &Served, listed: Listed) -> Self {
        let before = head(served, &listed);
        let begin = match served.custom() {
            Some(_) => served.head().into_bytes(),
            None => b"{".to_vec(),
        };
        let items: usize = listed.items.iter().map(|object| object.size() + b",".len() + begin.len()).sum();
        // The first item has no comma.
        let commas = usize::from(!listed.items.is_empty());
        let left = before.len() + items - commas + TAIL.len();
        Self { items: listed.items.into_iter(), before, begin, left }
    }

    /// Bytes that are still to come.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The next piece; `None` behind the last.
    pub fn next(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let mut piece = Vec::with_capacity(self.left.min(PIECE_BYTES));
        piece.append(&mut self.before);
        while let Some(object) = self.items.as_slice().first() {
            if !piece.is_empty() && piece.len() + object.size() + self.begin.len() + TAIL.len() > PIECE_BYTES
            {
                break;
            }
            piece.extend_from_slice(&self.begin);
            object.write_fields(&mut piece);
            self.items.next();
            if !self.items.as_slice().is_empty() {
                piece.push(b',');
            }
        }
        if self.items.as_slice().is_empty() {
            piece.extend_from_slice(TAIL);
            self.left = piece.len();
        }
        self.left = self.left.saturating_sub(piece.len());
        Some(piece.into())
    }

    /// All of it at once.
    pub fn collect(mut self) -> Bytes {
        let mut all = Vec::with_capacity(self.left);
        while let Some(piece) = self.next() {
            all.extend_from_slice(&piece);
        }
        all.into()
    }
}

fn head(served: &Served, listed: &Listed) -> Vec<u8> {
    let mut head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{{\"resourceVersion\":\"{}\"",
        served.list_kind(),
        served.resource.gv,
        listed.revision
    );
    // Lists of custom resources have it always.
    if !listed.continue_token.is_empty() || served.custom().is_some() {
        head += &format!(",\"continue\":\"{}\"", listed.continue_token);
    }
    if let Some(remaining) = listed.remaining {
        head += &format!(",\"remainingItemCount\":{remaining}");
    }
    head += "},\"items\":[";
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode};
    use http_body_util::BodyExt;
    use hyper::body::Body as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::{Api, body::Body, objects, testing};

    async fn create(api: &Api, name: &str, filling: usize) {
        let mut request = testing::request(Method::POST, "/api/v1/namespaces", &[]);
        let annotations = json!({"filling": "x".repeat(filling)});
        let object = json!({"metadata": {"name": name, "annotations": annotations}});
        request.body = object.to_string().into();
        let answer = objects::handle(api, &request, "", "v1").await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
    }

    async fn get(api: &Api, target: &str) -> objects::Answer {
        let request = testing::request(Method::GET, target, &[("accept", "application/json")]);
        let answer = objects::handle(api, &request, "", "v1").await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        answer
    }

    /// Lists objects with that much filling, and returns the sizes of the pieces.
    async fn check(filling: &[usize]) -> Vec<usize> {
        let api = testing::api();
        for (number, filling) in filling.iter().enumerate() {
            create(&api, &format!("n{number:04}"), *filling).await;
        }
        let mut list = get(&api, "/api/v1/namespaces").await.into_body();
        assert!(matches!(list, Body::List(_)));
        let announced = list.size_hint().exact().unwrap();
        let mut pieces = Vec::new();
        while let Some(frame) = list.frame().await {
            pieces.push(frame.unwrap().into_data().unwrap());
        }
        assert!(list.is_end_stream());
        let all = pieces.concat();
        assert_eq!(all.len() as u64, announced);

        // What an indented answer says, which is made from one buffer.
        let whole = get(&api, "/api/v1/namespaces?pretty=true").await;
        assert_eq!(crate::pretty::indent(&all), testing::body_bytes(&whole));
        let mut listed: Value = serde_json::from_slice(&all).unwrap();
        let items = listed["items"].as_array_mut().unwrap();
        assert_eq!(items.len(), filling.len());
        for (number, item) in items.iter_mut().enumerate() {
            item["kind"] = "Namespace".into();
            item["apiVersion"] = "v1".into();
            let one = get(&api, &format!("/api/v1/namespaces/n{number:04}")).await;
            assert_eq!(*item, serde_json::from_slice::<Value>(&testing::body_bytes(&one)).unwrap());
        }
        pieces.iter().map(Bytes::len).collect()
    }

    #[tokio::test]
    async fn pieces_make_up_the_list_and_hold_whole_objects() {
        assert_eq!(check(&[]).await.len(), 1);
        assert_eq!(check(&[0]).await.len(), 1);
        assert_eq!(check(&[10; 100]).await.len(), 1);
        let many = check(&[5000; 60]).await;
        assert!(many.len() > 4 && many.iter().all(|size| *size <= PIECE_BYTES), "{many:?}");
        // An object that is larger than a piece goes alone.
        let mixed = check(&[10, PIECE_BYTES, 10, 2 * PIECE_BYTES, 3 * PIECE_BYTES, 10]).await;
        assert!(mixed.len() > 4, "{mixed:?}");
    }

    #[tokio::test]
    async fn pieces_are_full_to_the_limit_and_not_past_it() {
        // The size of a list with one object without filling is what all share.
        let [shared] = check(&[0]).await[..] else { panic!("one piece") };
        assert_eq!(check(&[PIECE_BYTES - shared]).await, [PIECE_BYTES]);
        let past = check(&[PIECE_BYTES - shared + 1]).await;
        assert_eq!(past.iter().sum::<usize>(), PIECE_BYTES + 1);
        assert_eq!(past.len(), 2);
    }
}
