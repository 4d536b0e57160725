//! Every message that an `openapi.v3.Document` can hold, with the field numbers
//! of the public `openapi.v3` protobuf package and the keys its objects must
//! have.

use super::table::{
    ANY, Keys, Message, When, alternative, boolean, double, extensions, integer, message, messages, named,
    named_strings, record, reference, string, strings,
};

pub(super) static DOCUMENT: Message = record(
    &["info", "openapi", "paths"],
    &[
        string(1, "openapi"),
        message(2, "info", &INFO),
        messages(3, "servers", &SERVER),
        message(4, "paths", &PATHS),
        message(5, "components", &COMPONENTS),
        messages(6, "security", &SECURITY_REQUIREMENT),
        messages(7, "tags", &TAG),
        message(8, "externalDocs", &EXTERNAL_DOCS),
        extensions(9),
    ],
);

static ADDITIONAL_PROPERTIES_ITEM: Message = Message::BooleanOr(&SCHEMA_OR_REFERENCE);

static ANY_OR_EXPRESSION: Message = Message::AnyOrExpression(&EXPRESSION);

static CALLBACK: Message = record(&[], &[named(1, Keys::NotExtension, &PATH_ITEM), extensions(2)]);

static CALLBACK_OR_REFERENCE: Message =
    Message::OneOf(&[alternative(2, When::HasRef, &REFERENCE), alternative(1, When::Otherwise, &CALLBACK)]);

static CALLBACKS_OR_REFERENCES: Message = record(&[], &[named(1, Keys::Every, &CALLBACK_OR_REFERENCE)]);

static COMPONENTS: Message = record(
    &[],
    &[
        message(1, "schemas", &SCHEMAS_OR_REFERENCES),
        message(2, "responses", &RESPONSES_OR_REFERENCES),
        message(3, "parameters", &PARAMETERS_OR_REFERENCES),
        message(4, "examples", &EXAMPLES_OR_REFERENCES),
        message(5, "requestBodies", &REQUEST_BODIES_OR_REFERENCES),
        message(6, "headers", &HEADERS_OR_REFERENCES),
        message(7, "securitySchemes", &SECURITY_SCHEMES_OR_REFERENCES),
        message(8, "links", &LINKS_OR_REFERENCES),
        message(9, "callbacks", &CALLBACKS_OR_REFERENCES),
        extensions(10),
    ],
);

static CONTACT: Message =
    record(&[], &[string(1, "name"), string(2, "url"), string(3, "email"), extensions(4)]);

static DEFAULT_TYPE: Message = Message::Scalar;

static DISCRIMINATOR: Message =
    record(&["propertyName"], &[string(1, "propertyName"), message(2, "mapping", &STRINGS), extensions(3)]);

static ENCODING: Message = record(
    &[],
    &[
        string(1, "contentType"),
        message(2, "headers", &HEADERS_OR_REFERENCES),
        string(3, "style"),
        boolean(4, "explode"),
        boolean(5, "allowReserved"),
        extensions(6),
    ],
);

static ENCODINGS: Message = record(&[], &[named(1, Keys::Every, &ENCODING)]);

static EXAMPLE: Message = record(
    &[],
    &[
        string(1, "summary"),
        string(2, "description"),
        message(3, "value", &ANY),
        string(4, "externalValue"),
        extensions(5),
    ],
);

static EXAMPLE_OR_REFERENCE: Message =
    Message::OneOf(&[alternative(2, When::HasRef, &REFERENCE), alternative(1, When::Otherwise, &EXAMPLE)]);

static EXAMPLES_OR_REFERENCES: Message = record(&[], &[named(1, Keys::Every, &EXAMPLE_OR_REFERENCE)]);

static EXPRESSION: Message = record(&[], &[named(1, Keys::Every, &ANY)]);

static EXTERNAL_DOCS: Message =
    record(&["url"], &[string(1, "description"), string(2, "url"), extensions(3)]);

static HEADER: Message = record(
    &[],
    &[
        string(1, "description"),
        boolean(2, "required"),
        boolean(3, "deprecated"),
        boolean(4, "allowEmptyValue"),
        string(5, "style"),
        boolean(6, "explode"),
        boolean(7, "allowReserved"),
        message(8, "schema", &SCHEMA_OR_REFERENCE),
        message(9, "example", &ANY),
        message(10, "examples", &EXAMPLES_OR_REFERENCES),
        message(11, "content", &MEDIA_TYPES),
        extensions(12),
    ],
);

static HEADER_OR_REFERENCE: Message =
    Message::OneOf(&[alternative(2, When::HasRef, &REFERENCE), alternative(1, When::Otherwise, &HEADER)]);

static HEADERS_OR_REFERENCES: Message = record(&[], &[named(1, Keys::Every, &HEADER_OR_REFERENCE)]);

static INFO: Message = record(
    &["title", "version"],
    &[
        string(1, "title"),
        string(2, "description"),
        string(3, "termsOfService"),
        message(4, "contact", &CONTACT),
        message(5, "license", &LICENSE),
        string(6, "version"),
        extensions(7),
        string(8, "summary"),
    ],
);

static ITEMS_ITEM: Message = Message::OneOrMany(&SCHEMA_OR_REFERENCE);

static LICENSE: Message = record(&["name"], &[string(1, "name"), string(2, "url"), extensions(3)]);

static LINK: Message = record(
    &[],
    &[
        string(1, "operationRef"),
        string(2, "operationId"),
        message(3, "parameters", &ANY_OR_EXPRESSION),
        message(4, "requestBody", &ANY_OR_EXPRESSION),
        string(5, "description"),
        message(6, "server", &SERVER),
        extensions(7),
    ],
);

static LINK_OR_REFERENCE: Message =
    Message::OneOf(&[alternative(2, When::HasRef, &REFERENCE), alternative(1, When::Otherwise, &LINK)]);

static LINKS_OR_REFERENCES: Message = record(&[], &[named(1, Keys::Every, &LINK_OR_REFERENCE)]);

static MEDIA_TYPE: Message = record(
    &[],
    &[
        message(1, "schema", &SCHEMA_OR_REFERENCE),
        message(2, "example", &ANY),
        message(3, "examples", &EXAMPLES_OR_REFERENCES),
        message(4, "encoding", &ENCODINGS),
        extensions(5),
    ],
);

static MEDIA_TYPES: Message = record(&[], &[named(1, Keys::Every, &MEDIA_TYPE)]);

static OAUTH_FLOW: Message = record(
    &[],
    &[
        string(1, "authorizationUrl"),
        string(2, "tokenUrl"),
        string(3, "refreshUrl"),
        message(4, "scopes", &STRINGS),
        extensions(5),
    ],
);

static OAUTH_FLOWS: Message = record(
    &[],
    &[
        message(1, "implicit", &OAUTH_FLOW),
        message(2, "password", &OAUTH_FLOW),
        message(3, "clientCredentials", &OAUTH_FLOW),
        message(4, "authorizationCode", &OAUTH_FLOW),
        extensions(5),
    ],
);

static OPERATION: Message = record(
    &["responses"],
    &[
        strings(1, "tags"),
        string(2, "summary"),
        string(3, "description"),
        message(4, "externalDocs", &EXTERNAL_DOCS),
        string(5, "operationId"),
        messages(6, "parameters", &PARAMETER_OR_REFERENCE),
        message(7, "requestBody", &REQUEST_BODY_OR_REFERENCE),
        message(8, "responses", &RESPONSES),
        message(9, "callbacks", &CALLBACKS_OR_REFERENCES),
        boolean(10, "deprecated"),
        messages(11, "security", &SECURITY_REQUIREMENT),
        messages(12, "servers", &SERVER),
        extensions(13),
    ],
);

static PARAMETER: Message = record(
    &["in", "name"],
    &[
        string(1, "name"),
        string(2, "in"),
        string(3, "description"),
        boolean(4, "required"),
        boolean(5, "deprecated"),
        boolean(6, "allowEmptyValue"),
        string(7, "style"),
        boolean(8, "explode"),
        boolean(9, "allowReserved"),
        message(10, "schema", &SCHEMA_OR_REFERENCE),
        message(11, "example", &ANY),
        message(12, "examples", &EXAMPLES_OR_REFERENCES),
        message(13, "content", &MEDIA_TYPES),
        extensions(14),
    ],
);

static PARAMETER_OR_REFERENCE: Message =
    Message::OneOf(&[alternative(2, When::HasRef, &REFERENCE), alternative(1, When::Otherwise, &PARAMETER)]);

static PARAMETERS_OR_REFERENCES: Message = record(&[], &[named(1, Keys::Every, &PARAMETER_OR_REFERENCE)]);

static PATH_ITEM: Message = record(
    &[],
    &[
        string(1, "$ref"),
        string(2, "summary"),
        string(3, "description"),
        message(4, "get", &OPERATION),
        message(5, "put", &OPERATION),
        message(6, "post", &OPERATION),
        message(7, "delete", &OPERATION),
        message(8, "options", &OPERATION),
        message(9, "head", &OPERATION),
        message(10, "patch", &OPERATION),
        message(11, "trace", &OPERATION),
        messages(12, "servers", &SERVER),
        messages(13, "parameters", &PARAMETER_OR_REFERENCE),
        extensions(14),
    ],
);

static PATHS: Message = record(&[], &[named(1, Keys::Path, &PATH_ITEM), extensions(2)]);

static PROPERTIES: Message = record(&[], &[named(1, Keys::Every, &SCHEMA_OR_REFERENCE)]);

static REFERENCE: Message =
    reference(&["$ref"], &[string(1, "$ref"), string(2, "summary"), string(3, "description")]);

static REQUEST_BODIES_OR_REFERENCES: Message =
    record(&[], &[named(1, Keys::Every, &REQUEST_BODY_OR_REFERENCE)]);

static REQUEST_BODY: Message = record(
    &["content"],
    &[string(1, "description"), message(2, "content", &MEDIA_TYPES), boolean(3, "required"), extensions(4)],
);

static REQUEST_BODY_OR_REFERENCE: Message = Message::OneOf(&[
    alternative(2, When::HasRef, &REFERENCE),
    alternative(1, When::Otherwise, &REQUEST_BODY),
]);

static RESPONSE: Message = record(
    &["description"],
    &[
        string(1, "description"),
        message(2, "headers", &HEADERS_OR_REFERENCES),
        message(3, "content", &MEDIA_TYPES),
        message(4, "links", &LINKS_OR_REFERENCES),
        extensions(5),
    ],
);

static RESPONSE_OR_REFERENCE: Message =
    Message::OneOf(&[alternative(2, When::HasRef, &REFERENCE), alternative(1, When::Otherwise, &RESPONSE)]);

static RESPONSES: Message = record(
    &[],
    &[
        message(1, "default", &RESPONSE_OR_REFERENCE),
        named(2, Keys::ResponseCode, &RESPONSE_OR_REFERENCE),
        extensions(3),
    ],
);

static RESPONSES_OR_REFERENCES: Message = record(&[], &[named(1, Keys::Every, &RESPONSE_OR_REFERENCE)]);

static SCHEMA: Message = record(
    &[],
    &[
        boolean(1, "nullable"),
        message(2, "discriminator", &DISCRIMINATOR),
        boolean(3, "readOnly"),
        boolean(4, "writeOnly"),
        message(5, "xml", &XML),
        message(6, "externalDocs", &EXTERNAL_DOCS),
        message(7, "example", &ANY),
        boolean(8, "deprecated"),
        string(9, "title"),
        double(10, "multipleOf"),
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
        integer(21, "maxProperties"),
        integer(22, "minProperties"),
        strings(23, "required"),
        messages(24, "enum", &ANY),
        string(25, "type"),
        messages(26, "allOf", &SCHEMA_OR_REFERENCE),
        messages(27, "oneOf", &SCHEMA_OR_REFERENCE),
        messages(28, "anyOf", &SCHEMA_OR_REFERENCE),
        message(29, "not", &SCHEMA),
        message(30, "items", &ITEMS_ITEM),
        message(31, "properties", &PROPERTIES),
        message(32, "additionalProperties", &ADDITIONAL_PROPERTIES_ITEM),
        message(33, "default", &DEFAULT_TYPE),
        string(34, "description"),
        string(35, "format"),
        extensions(36),
    ],
);

static SCHEMA_OR_REFERENCE: Message =
    Message::OneOf(&[alternative(2, When::HasRef, &REFERENCE), alternative(1, When::Otherwise, &SCHEMA)]);

static SCHEMAS_OR_REFERENCES: Message = record(&[], &[named(1, Keys::Every, &SCHEMA_OR_REFERENCE)]);

static SECURITY_REQUIREMENT: Message = record(&[], &[named(1, Keys::Every, &STRING_ARRAY)]);

static SECURITY_SCHEME: Message = record(
    &["type"],
    &[
        string(1, "type"),
        string(2, "description"),
        string(3, "name"),
        string(4, "in"),
        string(5, "scheme"),
        string(6, "bearerFormat"),
        message(7, "flows", &OAUTH_FLOWS),
        string(8, "openIdConnectUrl"),
        extensions(9),
    ],
);

static SECURITY_SCHEME_OR_REFERENCE: Message = Message::OneOf(&[
    alternative(2, When::HasRef, &REFERENCE),
    alternative(1, When::Otherwise, &SECURITY_SCHEME),
]);

static SECURITY_SCHEMES_OR_REFERENCES: Message =
    record(&[], &[named(1, Keys::Every, &SECURITY_SCHEME_OR_REFERENCE)]);

static SERVER: Message = record(
    &["url"],
    &[string(1, "url"), string(2, "description"), message(3, "variables", &SERVER_VARIABLES), extensions(4)],
);

static SERVER_VARIABLE: Message = record(
    &["default"],
    &[strings(1, "enum"), string(2, "default"), string(3, "description"), extensions(4)],
);

static SERVER_VARIABLES: Message = record(&[], &[named(1, Keys::Every, &SERVER_VARIABLE)]);

static STRING_ARRAY: Message = Message::Strings;

static STRINGS: Message = record(&[], &[named_strings(1, Keys::Every)]);

static TAG: Message = record(
    &["name"],
    &[string(1, "name"), string(2, "description"), message(3, "externalDocs", &EXTERNAL_DOCS), extensions(4)],
);

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
