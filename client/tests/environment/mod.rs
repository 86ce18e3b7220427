//! What a test needs of the machine and may not find there.

/// Says in one loud line that `test` is skipped since `what` is missing. Where `FARSIDE_REQUIRE` names `what` in its
/// list, or is `all`, as in CI, that is a failure.
pub(crate) fn skip(test: &str, what: &str, why: &str) {
    let required = std::env::var("FARSIDE_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name == what || name == "all");
    assert!(!is_required, "{test}: {what} is missing ({why}), and FARSIDE_REQUIRE={required} asks for it");
    eprintln!("\n!!! SKIPPED {test}: {what} is missing ({why})\n");
}
