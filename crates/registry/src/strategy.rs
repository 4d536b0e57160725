//! What a kind decides about its objects, as upstream's strategies do.
//!
//! A kind's [`Strategy`] stands in `kinds/KIND.rs` and is built from
//! [`Strategy::of`], which holds what most kinds do; so a file names only what is
//! peculiar to its kind. Everything is a plain function or a constant.
//!
//! Order of use on create: `default`, `prepare_create`, generic metadata checks,
//! `validate`. On update: `default`, `prepare_update`, generic metadata checks,
//! `validate_update` (which includes what `validate` checks, where upstream does so).

use serde_json::Value;
use sternpost_meta::{
    field::Errors,
    format::{self, Problems},
    status::Status,
};

use crate::{
    context::{Cluster, Context},
    field_selectors::SelectableFields,
    node_connection::{Address, ProxyId, Refusal},
    object::{Fields, FieldsMut},
    table::{self, Column, RowOrder},
};

#[derive(Debug, Clone, Copy)]
pub struct Strategy {
    /// Of the kind; empty for what all custom resources do.
    pub group: &'static str,
    pub kind: &'static str,

    /// Fills in what the user left out. Runs on every write, and is idempotent.
    pub default: fn(&mut Value),
    /// Clears or sets what a creator may not choose.
    pub prepare_create: fn(&mut Value),
    /// Restores what an updater may not change; the generation is not its business.
    pub prepare_update: fn(&mut Value, &Value),
    /// As `prepare_update`, for the `status` subresource.
    pub prepare_status_update: fn(&mut Value, &Value),
    /// Everything but the generic rules for `metadata`.
    pub validate: fn(&Value, &mut Errors),
    /// New object, old object.
    pub validate_update: fn(&Value, &Value, &mut Errors),
    /// As `validate_update`, for the `status` subresource.
    pub validate_status_update: fn(&Value, &Value, &mut Errors),
    /// Texts for `Warning` headers about what a creator sent and preparation
    /// will change: asked before it, and told before the others.
    pub early_warnings: fn(&Value) -> Vec<String>,
    /// Texts for `Warning` headers; the old object on update.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,

    /// Whether the writer may write this; comes before all other checks. The old object on update.
    pub authorize: fn(&Value, Option<&Value>, &Context<'_>) -> Result<(), Status>,
    /// Completes an object that is prepared to be created.
    pub stamp_create: fn(&mut Value, &Context<'_>),
    /// Completes an object that is prepared to replace another.
    pub stamp_update: fn(&mut Value, &Value, &Context<'_>),
    /// What takes more than the object to say; goes before `validate`. The old object on update.
    pub validate_in_context: fn(&Value, Option<&Value>, &Context<'_>, &mut Errors),
    /// What is claimed beside the object: behind preparation, before validation.
    pub allocation: Option<Allocation>,
    /// Completes what managed fields are made from, where that is not the object as it is.
    pub show_to_managers: Option<fn(&mut Value)>,
    /// Whether those who create such an object own its fields.
    pub has_managers: bool,

    /// What is wrong with a name of this kind.
    pub name: fn(&str) -> Problems,
    /// Whether finalizers must be standard ones or fully qualified.
    pub qualified_finalizers: bool,
    /// What upstream's kind checks again in the metadata of an update, after
    /// the checks that all kinds share. It shows in the causes.
    pub checks_again: &'static [MetadataCheck],
    /// The same of an update of its status, or through another subresource.
    pub status_checks_again: &'static [MetadataCheck],
    pub generation: Generation,
    /// PUT of a missing object creates it.
    pub create_on_update: bool,
    /// PUT without a resource version replaces whatever is there.
    pub unconditional_update: bool,
    pub delete_answer: DeleteAnswer,
    /// Seconds that an object stays when it is deleted, of those that the client asked for.
    pub grace_period: Option<fn(&Value, Option<i64>) -> i64>,
    /// Deletion only begins the end, at this time, whatever the object waits for: content may still be on
    /// its way into it.
    pub begin_to_end: Option<fn(&mut Value, &str)>,
    /// Dependents stay unless the client says otherwise.
    pub orphans_dependents: bool,
    /// What is said to who does not say what becomes of dependents.
    pub orphan_warning: Option<&'static str>,
    /// Its objects are what others lie in.
    pub is_namespace: bool,
    /// Where upstream's etcd has its objects, if not at the plural of the resource.
    pub storage_prefix: Option<&'static str>,
    /// Whether upstream stores it as protobuf, and not as JSON.
    pub stored_as_protobuf: bool,
    /// Whether its objects are stored for a time.
    pub expires: bool,
    /// Its objects are made when they are asked for.
    pub computed: Option<Computed>,
    /// To create one is to post it to this subresource of the object that it names.
    pub posted_to: Option<PostedTo>,
    /// Fields that no writer of the object itself owns: what is sent for them is not taken.
    pub reset_fields: &'static [&'static str],
    pub subresources: &'static [Subresource],
    /// Versions that are not stored as they are served.
    pub conversions: &'static [Conversion],

    /// What every answer about a deprecated kind says.
    pub deprecation: Option<&'static str>,
    /// `None` if lists can be filtered by what all objects have, and nothing else.
    pub selectable_fields: Option<SelectableFields>,
    /// What tables show. The answers of create-only resources cannot be had as tables.
    pub columns: &'static [Column],
    pub tabular: bool,
    /// Cells behind those of the columns that upstream sends without a column for them.
    pub cells_without_column: &'static [Column],
    /// Where a row stands among the others; those of most kinds stand in the order of their list.
    pub row_order: Option<RowOrder>,
    /// What a row says about its object beside the cells.
    pub row_condition: fn(&Value) -> Option<Value>,
}

impl Strategy {
    /// What most kinds do, to build the others from.
    pub const fn of(group: &'static str, kind: &'static str) -> Self {
        Self {
            group,
            kind,
            default: |_| {},
            prepare_create: |_| {},
            prepare_update: |_, _| {},
            prepare_status_update: |_, _| {},
            validate: |_, _| {},
            validate_update: |_, _, _| {},
            validate_status_update: |_, _, _| {},
            early_warnings: |_| Vec::new(),
            warnings: |_, _| Vec::new(),
            authorize: |_, _, _| Ok(()),
            stamp_create: |_, _| {},
            stamp_update: |_, _, _| {},
            validate_in_context: |_, _, _, _| {},
            allocation: None,
            show_to_managers: None,
            has_managers: true,
            name: format::dns_subdomain,
            qualified_finalizers: true,
            checks_again: &[MetadataCheck::Changed],
            status_checks_again: &[MetadataCheck::Changed],
            generation: Generation::Untracked,
            create_on_update: false,
            unconditional_update: true,
            delete_answer: DeleteAnswer::Status,
            grace_period: None,
            begin_to_end: None,
            orphans_dependents: false,
            orphan_warning: None,
            is_namespace: false,
            storage_prefix: None,
            stored_as_protobuf: true,
            expires: false,
            computed: None,
            posted_to: None,
            reset_fields: &[],
            subresources: &[],
            conversions: &[],
            deprecation: None,
            selectable_fields: None,
            columns: table::GENERIC,
            tabular: true,
            cells_without_column: &[],
            row_order: None,
            row_condition: |_| None,
        }
    }

    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// How objects of a version become those that are stored, if they are not.
    pub fn conversion(&self, version: &str) -> Option<&'static Conversion> {
        self.conversions.iter().find(|conversion| conversion.version == version)
    }
}

/// What can be done through a subresource.
#[derive(Debug, Clone, Copy)]
pub struct Subresource {
    pub name: &'static str,
    /// Fields that no writer through it owns.
    pub reset_fields: &'static [&'static str],
    pub action: Action,
}

#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// Changes the status, as the strategy's functions for it say.
    Status,
    /// Changes another part of the object.
    Part {
        /// Restores everything else from the stored object.
        prepare: fn(&mut Value, &Value),
        validate: fn(&Value, &Value, &mut Errors),
    },
    /// A number of replicas, in a kind of its own.
    Scale,
    /// Takes an object of another kind and changes the parent by it. Nothing is shown of either.
    Change(fn(&mut Value, &Value, &dyn Cluster) -> Result<(), Status>),
    /// Takes an object of another kind and deletes the parent, if this agrees. What it returns is
    /// stored first.
    Delete(fn(&Value, &dyn Cluster) -> Result<Option<Stored>, Status>),
    /// Asks for a token of the parent.
    Token,
    /// What the parent said.
    Log,
    /// A connection into the parent.
    Stream(Stream),
    /// A request to what the parent stands for.
    Proxy(Proxy),
    /// Changes finalizers that stand in the spec, and removes the object with the last one.
    Finalize { prepare: fn(&mut Value, &Value), validate: fn(&Value, &mut Errors) },
}

impl Subresource {
    /// Of most kinds that have a status.
    pub const STATUS: Self = Self::status(&[".spec"]);

    pub const SCALE: Self = Self { name: "scale", reset_fields: &[], action: Action::Scale };

    /// Of what is no part of the object.
    pub const fn other(name: &'static str, action: Action) -> Self {
        Self { name, reset_fields: &[], action }
    }

    /// Of a status whose writers own none of these fields.
    pub const fn status(reset_fields: &'static [&'static str]) -> Self {
        Self { name: "status", reset_fields, action: Action::Status }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Exec,
    Attach,
    PortForward,
}

/// Where a request goes.
#[derive(Debug, Clone, Copy)]
pub enum Proxy {
    /// To the object itself, which errors call this.
    Object { called: &'static str, address: fn(ProxyId<'_>, &Value) -> Result<Address, Refusal> },
    /// To another, by namespace and id.
    Other(fn(&str, &str, &dyn Cluster) -> Result<Address, Refusal>),
}

/// An object to store, in the namespace of the parent.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub object: Value,
}

/// What an object claims beside itself, each for one holder only.
#[derive(Debug, Clone, Copy)]
pub struct Allocation {
    pub create: fn(&mut Value, &Context<'_>) -> Result<Allocated, Status>,
    pub update: fn(&mut Value, &Value, &Context<'_>) -> Result<Allocated, Status>,
    /// What an object gives back that goes away.
    pub release: fn(&Value) -> Vec<ClaimKey>,
}

/// What a write takes and gives back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Allocated {
    pub taken: Vec<Claim>,
    pub given_back: Vec<ClaimKey>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub key: ClaimKey,
    /// What is there to see of it, if anything.
    pub object: Option<Value>,
}

/// An object of the cluster scope, or what is kept like one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimKey {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub name: String,
}

/// Objects that are not stored.
#[derive(Debug, Clone, Copy)]
pub struct Computed {
    /// What errors call the resource.
    pub called: &'static str,
    /// All of them, as items of a list.
    pub items: fn() -> Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostedTo {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub subresource: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteAnswer {
    Status,
    Object,
}

/// Part of the rules for metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataCheck {
    /// What anybody may write.
    Written,
    /// What an update may not change.
    Changed,
}

/// When `metadata.generation` grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// Not by the server: what the creator sent is kept.
    Untracked,
    /// One on create, and one more whenever one of these fields changes.
    Tracks(&'static [&'static str]),
    /// As `Tracks`, but what the creator sent is kept.
    TracksFromSent(&'static [&'static str]),
    /// As `Tracks`, of all fields but these.
    TracksAllBut(&'static [&'static str]),
}

impl Generation {
    /// The fields whose change counts; `metadata.x` reaches into metadata.
    pub fn changed(self, new: &Value, old: &Value) -> bool {
        let fields = match self {
            Generation::Untracked => return false,
            Generation::Tracks(fields) | Generation::TracksFromSent(fields) => fields,
            Generation::TracksAllBut(others) => {
                let counted = |object: &Value| -> Vec<(String, Value)> {
                    let fields = object.as_object().into_iter().flatten();
                    let counted = fields.filter(|(name, _)| !others.contains(&name.as_str()));
                    counted.map(|(name, value)| (name.clone(), value.clone())).collect()
                };
                return counted(new) != counted(old);
            }
        };
        fields.iter().any(|field| match field.split_once('.') {
            Some((outer, inner)) => new.field(outer).field(inner) != old.field(outer).field(inner),
            None => new.field(field) != old.field(field),
        })
    }
}

/// Between a version that is served and the one that is stored, of the same kind.
#[derive(Debug, Clone, Copy)]
pub struct Conversion {
    /// The version that is served.
    pub version: &'static str,
    /// The `apiVersion` objects are stored as.
    pub stored_as: &'static str,
    pub to_stored: fn(&Value) -> Value,
    pub from_stored: fn(&Value) -> Value,
}

impl Conversion {
    /// A stored object as the served version has it.
    pub fn show(&self, stored: &Value) -> Value {
        let mut stored = stored.clone();
        stored.set("apiVersion", self.stored_as);
        (self.from_stored)(&stored)
    }
}
