//! A process of its own, in which nothing else has asked for a schema.

#[test]
fn finding_a_kind_decodes_nothing_and_reading_it_only_its_package() {
    let kinds: Vec<_> = sternpost_builtin::groups()
        .iter()
        .flat_map(|group| &group.versions)
        .flat_map(|version| &version.resources)
        .map(|resource| sternpost_builtin::definition_name(&resource.gvk()).unwrap())
        .collect();
    assert_eq!(kinds.len(), 68);
    assert_eq!(sternpost_builtin::decoded_packages(), 0);
    assert!(sternpost_builtin::definition(&kinds[0]).is_some());
    assert_eq!(sternpost_builtin::decoded_packages(), 1);
}
