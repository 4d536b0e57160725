//! Words that are nearly right.

/// How alike a word must be to what is meant, in parts of its length.
const ENOUGH: f64 = 0.7;

/// How alike two words are, whatever their case; nothing if one cannot be meant by the other.
pub fn likeness(word: &str, meant: &str) -> Option<f64> {
    let likeness = strsim::normalized_levenshtein(&word.to_lowercase(), &meant.to_lowercase());
    (likeness >= ENOUGH).then_some(likeness)
}

/// The word that is meant, if one of these is.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let alike = known.into_iter().filter_map(|known| Some((likeness(word, known)?, known)));
    alike.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_meant_if_it_is_near() {
        let known = ["listen", "load", "log-level", "log-format", "data-dir"];
        for (word, expected) in [
            ("lisen", Some("listen")),
            ("dataDir", Some("data-dir")),
            ("data_dir", Some("data-dir")),
            ("loglevel", Some("log-level")),
            ("port", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
