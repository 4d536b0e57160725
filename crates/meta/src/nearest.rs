//! Words that are nearly right.

/// How much alike two words are that may be confused: 1 is the same word.
const LIKENESS: f64 = 0.7;

/// The word that is most like this one, whatever their case, if one is like it at all.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness =
        |found: &str| strsim::normalized_damerau_levenshtein(&found.to_lowercase(), &word.to_lowercase());
    let near = known.into_iter().map(|found| (likeness(found), found));
    let near = near.filter(|(likeness, _)| *likeness >= LIKENESS);
    near.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_alike_is_meant() {
        let known = ["replicas", "selector", "template", "data-dir"];
        for (word, expected) in [
            ("replica", Some("replicas")),
            ("selectr", Some("selector")),
            ("Selector", Some("selector")),
            ("tempalte", Some("template")),
            ("re_plicas", Some("replicas")),
            ("dataDir", Some("data-dir")),
            ("ports", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
