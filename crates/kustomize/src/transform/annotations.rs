//! `commonAnnotations`.

use crate::error::Result;
use crate::field_spec::FieldSpec;
use crate::kustomization::TextMap;
use crate::resources::Resources;

use super::labels;

pub(crate) fn add(pairs: &TextMap, fields: &[FieldSpec], resources: &mut Resources) -> Result<()> {
    labels::add(pairs, fields, resources)
}
