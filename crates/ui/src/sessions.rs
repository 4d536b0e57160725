//! Who may use the page: codes of links, cookies and tokens.
//!
//! Pure: time and randomness are handed in.

use std::{collections::VecDeque, time::Duration};

use sha2::{Digest, Sha256};

/// How long a link opens a browser.
pub const CODE_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Links are not written more often than this, however often somebody without a session asks.
pub const OFFER_INTERVAL: Duration = Duration::from_secs(10);

/// Browsers that have been opened at the same time. One more, and the first has to be opened again.
pub const MAX_SESSIONS: usize = 16;

/// Bytes of randomness in everything here that is not to be guessed.
pub const SECRET_BYTES: usize = 32;

/// Bytes of randomness in the path of a session. It is no secret: nothing is had by it alone.
const PATH_BYTES: usize = 8;

/// Fills a slice with random bytes.
pub type Random = fn(&mut [u8]);

/// Times are since any moment, always the same.
#[derive(Debug)]
pub struct Sessions {
    random: Random,
    code: Option<Code>,
    offered: Option<Duration>,
    open: VecDeque<Session>,
}

/// Hashes are compared, so that how long that takes tells nothing.
#[derive(Debug)]
struct Code {
    digest: [u8; 32],
    until: Duration,
}

#[derive(Debug)]
struct Session {
    path: String,
    cookie: [u8; 32],
    /// The same for all tabs of a browser.
    token: String,
}

/// What a browser gets for a code.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    /// The name of the session in paths.
    pub path: String,
    pub cookie: String,
}

impl Sessions {
    pub fn new(random: Random) -> Self {
        Self { random, code: None, offered: None, open: VecDeque::new() }
    }

    /// The code of a new link, unless the last one still opens a browser or was made just now.
    pub fn offer(&mut self, now: Duration) -> Option<String> {
        let is_good = self.code.as_ref().is_some_and(|code| now < code.until);
        let is_recent = self.offered.is_some_and(|at| now < at + OFFER_INTERVAL);
        if is_good || is_recent {
            return None;
        }
        let code = self.secret(SECRET_BYTES);
        self.code = Some(Code { digest: digest(&code), until: now + CODE_LIFETIME });
        self.offered = Some(now);
        Some(code)
    }

    /// Opens a browser, if the code is that of the last link, was not used and has not expired.
    pub fn open(&mut self, code: &str, now: Duration) -> Option<Opened> {
        let known = self.code.as_ref()?;
        if !same(&known.digest, &digest(code)) {
            return None;
        }
        let is_good = now < known.until;
        self.code = None;
        if !is_good {
            return None;
        }
        let (path, cookie) = (self.secret(PATH_BYTES), self.secret(SECRET_BYTES));
        if self.open.len() == MAX_SESSIONS {
            self.open.pop_front();
        }
        let token = self.secret(SECRET_BYTES);
        self.open.push_back(Session { path: path.clone(), cookie: digest(&cookie), token });
        Some(Opened { path, cookie })
    }

    /// The token for a page of a session.
    pub fn token(&self, path: &str, cookie: &str) -> Option<&str> {
        let session = self.open.iter().find(|session| session.path == path)?;
        same(&session.cookie, &digest(cookie)).then_some(session.token.as_str())
    }

    /// Whether a request of the page of a session has both that it needs.
    pub fn is_permitted(&self, path: &str, cookie: &str, token: &str) -> bool {
        let session = self.open.iter().find(|session| session.path == path);
        session.is_some_and(|session| {
            same(&session.cookie, &digest(cookie)) & same(&digest(&session.token), &digest(token))
        })
    }

    fn secret(&self, length: usize) -> String {
        let mut bytes = vec![0; length];
        (self.random)(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// In the same time whatever the bytes are.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn sessions() -> Sessions {
        thread_local!(static NEXT: Cell<u8> = const { Cell::new(0) });
        Sessions::new(|bytes| {
            NEXT.set(NEXT.get().wrapping_add(1));
            bytes.fill(NEXT.get());
        })
    }

    const START: Duration = Duration::from_secs(100);

    #[test]
    fn a_code_opens_one_browser_once() {
        let mut sessions = sessions();
        let code = sessions.offer(START).unwrap();
        assert_eq!(sessions.open("other", START), None);
        let opened = sessions.open(&code, START).unwrap();
        assert_eq!(sessions.open(&code, START), None);
        let token = sessions.token(&opened.path, &opened.cookie).unwrap();
        assert!(sessions.is_permitted(&opened.path, &opened.cookie, token));
    }

    #[test]
    fn a_code_is_good_until_it_expires_and_not_after() {
        let mut sessions = sessions();
        let code = sessions.offer(START).unwrap();
        let last = START + CODE_LIFETIME - Duration::from_nanos(1);
        assert!(sessions.open(&code, last).is_some());
        let code = sessions.offer(START + CODE_LIFETIME).unwrap();
        assert_eq!(sessions.open(&code, START + CODE_LIFETIME + CODE_LIFETIME), None);
    }

    #[test]
    fn a_new_link_is_offered_when_the_last_is_of_no_use_and_not_too_often() {
        let mut sessions = sessions();
        let code = sessions.offer(START).unwrap();
        assert_eq!(sessions.offer(START + CODE_LIFETIME - Duration::from_nanos(1)), None);
        sessions.open(&code, START).unwrap();
        assert_eq!(sessions.offer(START + OFFER_INTERVAL - Duration::from_nanos(1)), None);
        assert!(sessions.offer(START + OFFER_INTERVAL).is_some());
    }

    #[test]
    fn a_request_needs_cookie_token_and_path_of_one_session() {
        let mut sessions = sessions();
        let mut open = |at| {
            let code = sessions.offer(at).unwrap();
            let opened = sessions.open(&code, at).unwrap();
            let token = sessions.token(&opened.path, &opened.cookie).unwrap().to_owned();
            (opened.path, opened.cookie, token)
        };
        let (path, cookie, token) = open(START);
        let (other_path, other_cookie, other_token) = open(START + OFFER_INTERVAL);
        for (path, cookie, token, expected) in [
            (&path, &cookie, &token, true),
            (&other_path, &other_cookie, &other_token, true),
            (&other_path, &cookie, &token, false),
            (&path, &other_cookie, &token, false),
            (&path, &cookie, &other_token, false),
            (&path, &String::new(), &token, false),
            (&path, &cookie, &String::new(), false),
            (&String::new(), &cookie, &token, false),
        ] {
            assert_eq!(sessions.is_permitted(path, cookie, token), expected);
        }
        assert_eq!(sessions.token(&path, &other_cookie), None);
        assert_eq!(sessions.token(&path, &cookie), Some(token.as_str()));
    }

    #[test]
    fn one_session_too_many_ends_the_first() {
        let mut sessions = sessions();
        let mut opened = vec![];
        for count in 0..=u32::try_from(MAX_SESSIONS).unwrap() {
            let at = START + OFFER_INTERVAL * count;
            let code = sessions.offer(at).unwrap();
            opened.push(sessions.open(&code, at).unwrap());
            let still = sessions.token(&opened[0].path, &opened[0].cookie).is_some();
            assert_eq!(still, opened.len() <= MAX_SESSIONS);
        }
        assert!(sessions.token(&opened[1].path, &opened[1].cookie).is_some());
    }
}
