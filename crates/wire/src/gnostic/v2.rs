//! Every message that an `openapi.v2.Document` can hold, with the field numbers
//! of the public `openapi.v2` protobuf package, the keys its objects must have
//! and the values its closed fields may take.

use super::table::{
    ANY, Keys, Message, When, alternative, boolean, double, extensions, integer, message, messages, named,
    named_strings, record, reference, string, strings,
};

pub(super) static DOCUMENT: Message = record(
    &["info", "paths", "swagger"],
    &[
        string(1, "swagger").one_of(&["2.0"]),
        message(2, "info", &INFO),
        string(3, "host"),
        string(4, "basePath"),
        strings(5, "schemes").one_of(&["http", "https", "ws", "wss"]),
        strings(6, "consumes"),
        strings(7, "produces"),
        message(8, "paths", &PATHS),
        message(9, "definitions", &DEFINITIONS),
        message(10, "parameters", &PARAMETER_DEFINITIONS),
        message(11, "responses", &RESPONSE_DEFINITIONS),
        messages(12, "security", &SECURITY_REQUIREMENT),
        message(13, "securityDefinitions", &SECURITY_DEFINITIONS),
        messages(14, "tags", &TAG),
        message(15, "externalDocs", &EXTERNAL_DOCS),
        extensions(16),
    ],
);

static ADDITIONAL_PROPERTIES_ITEM: Message = Message::BooleanOr(&SCHEMA);

static API_KEY_SECURITY: Message = record(
    &["in", "name", "type"],
    &[
        string(1, "type").one_of(&["apiKey"]),
        string(2, "name"),
        string(3, "in").one_of(&["header", "query"]),
        string(4, "description"),
        extensions(5),
    ],
);

static BASIC_AUTHENTICATION_SECURITY: Message =
    record(&["type"], &[string(1, "type").one_of(&["basic"]), string(2, "description"), extensions(3)]);

static BODY_PARAMETER: Message = record(
    &["in", "name", "schema"],
    &[
        string(1, "description"),
        string(2, "name"),
        string(3, "in").one_of(&["body"]),
        boolean(4, "required"),
        message(5, "schema", &SCHEMA),
        extensions(6),
    ],
);

static CONTACT: Message =
    record(&[], &[string(1, "name"), string(2, "url"), string(3, "email"), extensions(4)]);

static DEFINITIONS: Message = record(&[], &[named(1, Keys::Every, &SCHEMA)]);

static EXAMPLES: Message = record(&[], &[named(1, Keys::Every, &ANY)]);

static EXTERNAL_DOCS: Message =
    record(&["url"], &[string(1, "description"), string(2, "url"), extensions(3)]);

static FILE_SCHEMA: Message = record(
    &["type"],
    &[
        string(1, "format"),
        string(2, "title"),
        string(3, "description"),
        message(4, "default", &ANY),
        strings(5, "required"),
        string(6, "type").one_of(&["file"]),
        boolean(7, "readOnly"),
        message(8, "externalDocs", &EXTERNAL_DOCS),
        message(9, "example", &ANY),
        extensions(10),
    ],
);

static FORM_DATA_PARAMETER_SUB_SCHEMA: Message = record(
    &["in", "name", "type"],
    &[
        boolean(1, "required"),
        string(2, "in").one_of(&["formData"]),
        string(3, "description"),
        string(4, "name"),
        boolean(5, "allowEmptyValue"),
        string(6, "type").one_of(&["string", "number", "boolean", "integer", "array", "file"]),
        string(7, "format"),
        message(8, "items", &PRIMITIVES_ITEMS),
        string(9, "collectionFormat").one_of(&["csv", "ssv", "tsv", "pipes", "multi"]),
        message(10, "default", &ANY),
        double(11, "maximum"),
        boolean(12, "exclusiveMaximum"),
        double(13, "minimum"),
        boolean(14, "exclusiveMinimum"),
        integer(15, "maxLength"),
        integer(16, "minLength"),
        string(17, "pattern"),
        integer(18, "maxItems"),
        integer(19, "minItems"),
        boolean(20, "uniqueItems"),
        messages(21, "enum", &ANY),
        double(22, "multipleOf"),
        extensions(23),
    ],
);

static HEADER: Message = record(
    &["type"],
    &[
        string(1, "type").one_of(&["string", "number", "integer", "boolean", "array"]),
        string(2, "format"),
        message(3, "items", &PRIMITIVES_ITEMS),
        string(4, "collectionFormat").one_of(&["csv", "ssv", "tsv", "pipes"]),
        message(5, "default", &ANY),
        double(6, "maximum"),
        boolean(7, "exclusiveMaximum"),
        double(8, "minimum"),
        boolean(9, "exclusiveMinimum"),
        integer(10, "maxLength"),
        integer(11, "minLength"),
        string(12, "pattern"),
        integer(13, "maxItems"),
        integer(14, "minItems"),
        boolean(15, "uniqueItems"),
        messages(16, "enum", &ANY),
        double(17, "multipleOf"),
        string(18, "description"),
        extensions(19),
    ],
);

static HEADER_PARAMETER_SUB_SCHEMA: Message = record(
    &["in", "name", "type"],
    &[
        boolean(1, "required"),
        string(2, "in").one_of(&["header"]),
        string(3, "description"),
        string(4, "name"),
        string(5, "type").one_of(&["string", "number", "boolean", "integer", "array"]),
        string(6, "format"),
        message(7, "items", &PRIMITIVES_ITEMS),
        string(8, "collectionFormat").one_of(&["csv", "ssv", "tsv", "pipes"]),
        message(9, "default", &ANY),
        double(10, "maximum"),
        boolean(11, "exclusiveMaximum"),
        double(12, "minimum"),
        boolean(13, "exclusiveMinimum"),
        integer(14, "maxLength"),
        integer(15, "minLength"),
        string(16, "pattern"),
        integer(17, "maxItems"),
        integer(18, "minItems"),
        boolean(19, "uniqueItems"),
        messages(20, "enum", &ANY),
        double(21, "multipleOf"),
        extensions(22),
    ],
);

static HEADERS: Message = record(&[], &[named(1, Keys::Every, &HEADER)]);

static INFO: Message = record(
    &["title", "version"],
    &[
        string(1, "title"),
        string(2, "version"),
        string(3, "description"),
        string(4, "termsOfService"),
        message(5, "contact", &CONTACT),
        message(6, "license", &LICENSE),
        extensions(7),
    ],
);

static ITEMS_ITEM: Message = Message::OneOrMany(&SCHEMA);

static JSON_REFERENCE: Message = reference(&["$ref"], &[string(1, "$ref"), string(2, "description")]);

static LICENSE: Message = record(&["name"], &[string(1, "name"), string(2, "url"), extensions(3)]);

static NON_BODY_PARAMETER: Message = Message::OneOf(&[
    alternative(1, When::Equals(&[("in", "header")]), &HEADER_PARAMETER_SUB_SCHEMA),
    alternative(2, When::Equals(&[("in", "formData")]), &FORM_DATA_PARAMETER_SUB_SCHEMA),
    alternative(3, When::Equals(&[("in", "query")]), &QUERY_PARAMETER_SUB_SCHEMA),
    alternative(4, When::Equals(&[("in", "path")]), &PATH_PARAMETER_SUB_SCHEMA),
]);

static OAUTH2_ACCESS_CODE_SECURITY: Message = record(
    &["authorizationUrl", "flow", "tokenUrl", "type"],
    &[
        string(1, "type").one_of(&["oauth2"]),
        string(2, "flow").one_of(&["accessCode"]),
        message(3, "scopes", &OAUTH2_SCOPES),
        string(4, "authorizationUrl"),
        string(5, "tokenUrl"),
        string(6, "description"),
        extensions(7),
    ],
);

static OAUTH2_APPLICATION_SECURITY: Message = record(
    &["flow", "tokenUrl", "type"],
    &[
        string(1, "type").one_of(&["oauth2"]),
        string(2, "flow").one_of(&["application"]),
        message(3, "scopes", &OAUTH2_SCOPES),
        string(4, "tokenUrl"),
        string(5, "description"),
        extensions(6),
    ],
);

static OAUTH2_IMPLICIT_SECURITY: Message = record(
    &["authorizationUrl", "flow", "type"],
    &[
        string(1, "type").one_of(&["oauth2"]),
        string(2, "flow").one_of(&["implicit"]),
        message(3, "scopes", &OAUTH2_SCOPES),
        string(4, "authorizationUrl"),
        string(5, "description"),
        extensions(6),
    ],
);

static OAUTH2_PASSWORD_SECURITY: Message = record(
    &["flow", "tokenUrl", "type"],
    &[
        string(1, "type").one_of(&["oauth2"]),
        string(2, "flow").one_of(&["password"]),
        message(3, "scopes", &OAUTH2_SCOPES),
        string(4, "tokenUrl"),
        string(5, "description"),
        extensions(6),
    ],
);

static OAUTH2_SCOPES: Message = record(&[], &[named_strings(1, Keys::Every)]);

static OPERATION: Message = record(
    &["responses"],
    &[
        strings(1, "tags"),
        string(2, "summary"),
        string(3, "description"),
        message(4, "externalDocs", &EXTERNAL_DOCS),
        string(5, "operationId"),
        strings(6, "produces"),
        strings(7, "consumes"),
        messages(8, "parameters", &PARAMETERS_ITEM),
        message(9, "responses", &RESPONSES),
        strings(10, "schemes").one_of(&["http", "https", "ws", "wss"]),
        boolean(11, "deprecated"),
        messages(12, "security", &SECURITY_REQUIREMENT),
        extensions(13),
    ],
);

static PARAMETER: Message = Message::OneOf(&[
    alternative(1, When::Equals(&[("in", "body")]), &BODY_PARAMETER),
    alternative(2, When::Otherwise, &NON_BODY_PARAMETER),
]);

static PARAMETER_DEFINITIONS: Message = record(&[], &[named(1, Keys::Every, &PARAMETER)]);

static PARAMETERS_ITEM: Message = Message::OneOf(&[
    alternative(2, When::HasRef, &JSON_REFERENCE),
    alternative(1, When::Otherwise, &PARAMETER),
]);

static PATH_ITEM: Message = record(
    &[],
    &[
        string(1, "$ref"),
        message(2, "get", &OPERATION),
        message(3, "put", &OPERATION),
        message(4, "post", &OPERATION),
        message(5, "delete", &OPERATION),
        message(6, "options", &OPERATION),
        message(7, "head", &OPERATION),
        message(8, "patch", &OPERATION),
        messages(9, "parameters", &PARAMETERS_ITEM),
        extensions(10),
    ],
);

static PATH_PARAMETER_SUB_SCHEMA: Message = record(
    &["in", "name", "required", "type"],
    &[
        boolean(1, "required"),
        string(2, "in").one_of(&["path"]),
        string(3, "description"),
        string(4, "name"),
        string(5, "type").one_of(&["string", "number", "boolean", "integer", "array"]),
        string(6, "format"),
        message(7, "items", &PRIMITIVES_ITEMS),
        string(8, "collectionFormat").one_of(&["csv", "ssv", "tsv", "pipes"]),
        message(9, "default", &ANY),
        double(10, "maximum"),
        boolean(11, "exclusiveMaximum"),
        double(12, "minimum"),
        boolean(13, "exclusiveMinimum"),
        integer(14, "maxLength"),
        integer(15, "minLength"),
        string(16, "pattern"),
        integer(17, "maxItems"),
        integer(18, "minItems"),
        boolean(19, "uniqueItems"),
        messages(20, "enum", &ANY),
        double(21, "multipleOf"),
        extensions(22),
    ],
);

static PATHS: Message = record(&[], &[extensions(1), named(2, Keys::Path, &PATH_ITEM)]);

static PRIMITIVES_ITEMS: Message = record(
    &[],
    &[
        string(1, "type").one_of(&["string", "number", "integer", "boolean", "array"]),
        string(2, "format"),
        message(3, "items", &PRIMITIVES_ITEMS),
        string(4, "collectionFormat").one_of(&["csv", "ssv", "tsv", "pipes"]),
        message(5, "default", &ANY),
        double(6, "maximum"),
        boolean(7, "exclusiveMaximum"),
        double(8, "minimum"),
        boolean(9, "exclusiveMinimum"),
        integer(10, "maxLength"),
        integer(11, "minLength"),
        string(12, "pattern"),
        integer(13, "maxItems"),
        integer(14, "minItems"),
        boolean(15, "uniqueItems"),
        messages(16, "enum", &ANY),
        double(17, "multipleOf"),
        extensions(18),
    ],
);

static PROPERTIES: Message = record(&[], &[named(1, Keys::Every, &SCHEMA)]);

static QUERY_PARAMETER_SUB_SCHEMA: Message = record(
    &["in", "name", "type"],
    &[
        boolean(1, "required"),
        string(2, "in").one_of(&["query"]),
        string(3, "description"),
        string(4, "name"),
        boolean(5, "allowEmptyValue"),
        string(6, "type").one_of(&["string", "number", "boolean", "integer", "array"]),
        string(7, "format"),
        message(8, "items", &PRIMITIVES_ITEMS),
        string(9, "collectionFormat").one_of(&["csv", "ssv", "tsv", "pipes", "multi"]),
        message(10, "default", &ANY),
        double(11, "maximum"),
        boolean(12, "exclusiveMaximum"),
        double(13, "minimum"),
        boolean(14, "exclusiveMinimum"),
        integer(15, "maxLength"),
        integer(16, "minLength"),
        string(17, "pattern"),
        integer(18, "maxItems"),
        integer(19, "minItems"),
        boolean(20, "uniqueItems"),
        messages(21, "enum", &ANY),
        double(22, "multipleOf"),
        extensions(23),
    ],
);

static RESPONSE: Message = record(
    &["description"],
    &[
        string(1, "description"),
        message(2, "schema", &SCHEMA_ITEM),
        message(3, "headers", &HEADERS),
        message(4, "examples", &EXAMPLES),
        extensions(5),
    ],
);

static RESPONSE_DEFINITIONS: Message = record(&[], &[named(1, Keys::Every, &RESPONSE)]);

static RESPONSE_VALUE: Message = Message::OneOf(&[
    alternative(2, When::HasRef, &JSON_REFERENCE),
    alternative(1, When::Otherwise, &RESPONSE),
]);

static RESPONSES: Message =
    record(&[], &[named(1, Keys::ResponseCodeOrDefault, &RESPONSE_VALUE), extensions(2)]);

static SCHEMA: Message = record(
    &[],
    &[
        string(1, "$ref"),
        string(2, "format"),
        string(3, "title"),
        string(4, "description"),
        message(5, "default", &ANY),
        double(6, "multipleOf"),
        double(7, "maximum"),
        boolean(8, "exclusiveMaximum"),
        double(9, "minimum"),
        boolean(10, "exclusiveMinimum"),
        integer(11, "maxLength"),
        integer(12, "minLength"),
        string(13, "pattern"),
        integer(14, "maxItems"),
        integer(15, "minItems"),
        boolean(16, "uniqueItems"),
        integer(17, "maxProperties"),
        integer(18, "minProperties"),
        strings(19, "required"),
        messages(20, "enum", &ANY),
        message(21, "additionalProperties", &ADDITIONAL_PROPERTIES_ITEM),
        message(22, "type", &TYPE_ITEM),
        message(23, "items", &ITEMS_ITEM),
        messages(24, "allOf", &SCHEMA),
        message(25, "properties", &PROPERTIES),
        string(26, "discriminator"),
        boolean(27, "readOnly"),
        message(28, "xml", &XML),
        message(29, "externalDocs", &EXTERNAL_DOCS),
        message(30, "example", &ANY),
        extensions(31),
    ],
);

static SCHEMA_ITEM: Message = Message::OneOf(&[
    alternative(2, When::Equals(&[("type", "file")]), &FILE_SCHEMA),
    alternative(1, When::Otherwise, &SCHEMA),
]);

static SECURITY_DEFINITIONS: Message = record(&[], &[named(1, Keys::Every, &SECURITY_DEFINITIONS_ITEM)]);

static SECURITY_DEFINITIONS_ITEM: Message = Message::OneOf(&[
    alternative(1, When::Equals(&[("type", "basic")]), &BASIC_AUTHENTICATION_SECURITY),
    alternative(2, When::Equals(&[("type", "apiKey")]), &API_KEY_SECURITY),
    alternative(3, When::Equals(&[("type", "oauth2"), ("flow", "implicit")]), &OAUTH2_IMPLICIT_SECURITY),
    alternative(4, When::Equals(&[("type", "oauth2"), ("flow", "password")]), &OAUTH2_PASSWORD_SECURITY),
    alternative(
        5,
        When::Equals(&[("type", "oauth2"), ("flow", "application")]),
        &OAUTH2_APPLICATION_SECURITY,
    ),
    alternative(6, When::Equals(&[("type", "oauth2"), ("flow", "accessCode")]), &OAUTH2_ACCESS_CODE_SECURITY),
]);

static SECURITY_REQUIREMENT: Message = record(&[], &[named(1, Keys::Every, &STRING_ARRAY)]);

static STRING_ARRAY: Message = Message::Strings;

static TAG: Message = record(
    &["name"],
    &[string(1, "name"), string(2, "description"), message(3, "externalDocs", &EXTERNAL_DOCS), extensions(4)],
);

static TYPE_ITEM: Message = Message::StringOrStrings;

static XML: Message = record(
    &[],
    &[
        string(1, "name"),
        string(2, "namespace"),
        string(3, "prefix"),
        boolean(4, "attribute"),
        boolean(5, "wrapped"),
        extensions(6),
    ],
);
