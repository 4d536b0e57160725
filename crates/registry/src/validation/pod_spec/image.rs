//! Image references, as far as the pull policy depends on them.

/// The most characters of a repository name, its domain included.
const MAX_REPOSITORY: usize = 255;
/// The most characters of a tag.
const MAX_TAG: usize = 128;
/// The fewest hexadecimal digits of a digest.
const MIN_DIGEST: usize = 32;

/// `Always` for what follows a moving tag, `IfNotPresent` for everything else.
pub fn default_pull_policy(image: &str) -> &'static str {
    if follows_latest(image) { "Always" } else { "IfNotPresent" }
}

/// Whether the image is tagged `latest`, or has neither tag nor digest. What cannot be
/// read as a reference does not follow anything.
fn follows_latest(image: &str) -> bool {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let (repository, tag) = match rest.rsplit_once(':') {
        // A colon before a slash belongs to the domain's port.
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (rest, None),
    };
    if !is_repository(repository) || !tag.is_none_or(is_tag) || !digest.is_none_or(is_digest) {
        return false;
    }
    match (tag, digest) {
        (Some(tag), _) => tag == "latest",
        (None, digest) => digest.is_none(),
    }
}

fn is_repository(name: &str) -> bool {
    let is_bare_id = name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let (domain, path) = match name.split_once('/') {
        Some((first, path)) if is_domain_like(first) => (Some(first), path),
        _ => (None, name),
    };
    // The default domain and namespace count too.
    let length = match domain {
        Some(_) => name.len(),
        None if path.contains('/') => "docker.io/".len() + name.len(),
        None => "docker.io/library/".len() + name.len(),
    };
    !is_bare_id
        && length <= MAX_REPOSITORY
        && domain.is_none_or(is_domain)
        && path.split('/').all(is_path_component)
}

fn is_domain_like(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            let fits = address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
            if !fits || address.is_empty() {
                return false;
            }
            match rest {
                "" => return true,
                rest => match rest.strip_prefix(':') {
                    Some(port) => return is_number(port),
                    None => return false,
                },
            }
        }
        None => match domain.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (domain, None),
        },
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.split('.').all(label) && port.is_none_or(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lower-case words joined by one dot, one or two underscores, or dashes.
fn is_path_component(component: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_separator = |text: &str| {
        matches!(text, "." | "_" | "__") || (!text.is_empty() && text.bytes().all(|byte| byte == b'-'))
    };
    let edges =
        component.bytes().next().is_some_and(is_word) && component.bytes().last().is_some_and(is_word);
    edges
        && component
            .split(|char: char| char.is_ascii_lowercase() || char.is_ascii_digit())
            .all(|between| between.is_empty() || is_separator(between))
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= MAX_TAG
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let part = |part: &str| {
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(part)
        && hex.len() >= MIN_DIGEST
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_follows_latest_is_always_pulled() {
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for (image, latest) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.25", false),
            ("localhost:5000/a/b", true),
            ("localhost:5000/a/b:v1", false),
            ("registry.example.com/x__y/z-1.2", true),
            ("[::1]:5000/a", true),
            ("NGINX", false),
            ("a b", false),
            ("", false),
            ("nginx:", false),
            ("a..b", false),
            (&format!("nginx@{digest}"), false),
            (&format!("nginx:latest@{digest}"), true),
            ("nginx@sha256:short", false),
            ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", false),
            (&format!("nginx:{}", "t".repeat(MAX_TAG + 1)), false),
        ] {
            assert_eq!(follows_latest(image), latest, "{image}");
        }
        let longest = MAX_REPOSITORY - "docker.io/library/".len();
        assert!(follows_latest(&"a".repeat(longest)));
        assert!(!follows_latest(&"a".repeat(longest + 1)));
    }
}
