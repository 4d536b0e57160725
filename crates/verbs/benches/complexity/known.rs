//! Cases whose growth is known: what measures them shows first that it can tell them apart.

use std::hint::black_box;

use crate::Case;

const SIZE: usize = 50;

pub fn cases() -> Vec<Case> {
    vec![
        case("known to be linear", |numbers| {
            for number in numbers {
                black_box(format!("v{number:05}"));
            }
        }),
        // What a quadratic check looks like among others: cheap in itself, beside linear work.
        case("known to be quadratic", |numbers| {
            let mut seen = Vec::new();
            for number in numbers {
                let text = format!("v{number:05}");
                if !seen.contains(black_box(&text)) {
                    seen.push(text);
                }
            }
        }),
    ]
}

fn case(name: &str, work: fn(&[usize])) -> Case {
    Case {
        name: name.to_owned(),
        size: SIZE,
        work: Box::new(move |_, size| {
            let numbers: Vec<usize> = (0..size).collect();
            Box::new(move |_| work(&numbers))
        }),
    }
}
