"""Meanings of exceptions of converters, transforms, connectors and their libraries.

A class that is missing here is unknown, which forbids a skip. Which exceptions a sink throws for a
bad record is configured (sink_data); the classes of sinks below are those that no configuration may
attribute to a record.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.remedy.classify.throwables.kinds import (
    FailureKind,
    ThrowableHint,
    ThrowableRule,
    build_rule,
)

FORMATS: Final[tuple[ThrowableRule, ...]] = (
    build_rule(
        ThrowableHint.VALUE,
        "Jackson: text that is no JSON, or JSON that is not of the requested type. They are "
        "IOExceptions to Java, but a socket's error is not among them",
        "com.fasterxml.jackson.",
        "core.JsonParseException core.JsonProcessingException core.io.JsonEOFException "
        "core.exc.InputCoercionException core.exc.StreamConstraintsException "
        "core.exc.StreamReadException databind.JsonMappingException "
        "databind.exc.IgnoredPropertyException databind.exc.InvalidDefinitionException "
        "databind.exc.InvalidFormatException databind.exc.InvalidNullException "
        "databind.exc.InvalidTypeIdException databind.exc.MismatchedInputException "
        "databind.exc.UnrecognizedPropertyException databind.exc.ValueInstantiationException",
    ),
    build_rule(
        ThrowableHint.VALUE,
        "Gson, org.json and their like",
        "",
        "com.google.gson.JsonParseException com.google.gson.JsonSyntaxException "
        "com.google.gson.stream.MalformedJsonException org.json.JSONException "
        "com.jayway.jsonpath.InvalidJsonException com.jayway.jsonpath.PathNotFoundException "
        "com.dashjoin.jsonata.JException",
    ),
    build_rule(
        ThrowableHint.SCHEMA,
        "Avro: a schema that is none, or a value that is not of its schema",
        "org.apache.avro.",
        "AvroMissingFieldException AvroTypeException InvalidAvroMagicException "
        "InvalidNumberEncodingException SchemaParseException SchemaValidationException "
        "UnresolvedUnionException message.BadHeaderException",
    ),
    build_rule(
        ThrowableHint.VALUE, "Avro, of anything else", "org.apache.avro.", "AvroRuntimeException"
    ),
    build_rule(
        FailureKind.REGISTRY_DOWN,
        "Avro does not have the schema that it was to look up",
        "org.apache.avro.message.",
        "MissingSchemaException",
    ),
    build_rule(
        ThrowableHint.VALUE,
        "Protobuf, CBOR, MessagePack, Thrift and XML",
        "",
        "com.google.protobuf.InvalidProtocolBufferException "
        "com.google.protobuf.InvalidProtocolBufferException$InvalidWireTypeException "
        "com.google.protobuf.UninitializedMessageException "
        "com.github.os72.protobuf.dynamic.InvalidProtocolBufferException "
        "org.msgpack.core.MessageFormatException "
        "org.msgpack.core.MessageInsufficientBufferException org.msgpack.core.MessageTypeException "
        "org.apache.thrift.protocol.TProtocolException org.xml.sax.SAXParseException "
        "org.bson.BsonInvalidOperationException org.bson.BsonSerializationException "
        "org.bson.json.JsonParseException",
    ),
    build_rule(
        ThrowableHint.SCHEMA,
        "JSON Schema: the record does not keep to it; Protobuf: a descriptor that is none",
        "",
        "org.everit.json.schema.ValidationException com.networknt.schema.JsonSchemaException "
        "com.google.protobuf.Descriptors$DescriptorValidationException",
    ),
    build_rule(
        ThrowableHint.VALUE,
        "transforms' own words for a value",
        "",
        "com.github.jcustenborder.kafka.connect.utils.data.ParserException "
        "groovy.lang.MissingPropertyException groovy.lang.MissingMethodException "
        "org.codehaus.groovy.runtime.typehandling.GroovyCastException",
    ),
)

REGISTRIES: Final[tuple[ThrowableRule, ...]] = (
    build_rule(
        FailureKind.REGISTRY_DOWN,
        "a schema registry's answer, or none: whether it did not know the schema or was not well "
        "stands in its text, and text decides nothing here",
        "",
        "io.confluent.kafka.schemaregistry.* io.confluent.rest.exceptions.* "
        "io.apicurio.registry.* io.apicurio.rest.* "
        "com.amazonaws.services.schemaregistry.* software.amazon.awssdk.services.glue.* "
        "com.azure.data.schemaregistry.* "
        "com.hortonworks.registries.*",
    ),
)

CONNECTORS: Final[tuple[ThrowableRule, ...]] = (
    build_rule(
        FailureKind.UNKNOWN,
        "Debezium's word for everything, and its reader's for an event that could not be read, "
        "which it says of a connection that was cut, too",
        "",
        "io.debezium.DebeziumException "
        "com.github.shyiko.mysql.binlog.event.deserialization.EventDataDeserializationException "
        "com.github.shyiko.mysql.binlog.network.ServerException",
    ),
    build_rule(
        FailureKind.CONNECTIVITY,
        "MongoDB: the connection, the primary, or a condition that passes",
        "com.mongodb.",
        "MongoSocket* MongoNodeIsRecoveringException MongoNotPrimaryException "
        "MongoServerUnavailableException MongoConnectionPoolClearedException "
        "MongoCursorNotFoundException MongoInterruptedException",
    ),
    build_rule(
        FailureKind.TIMEOUT,
        "MongoDB did not answer in time",
        "com.mongodb.",
        "MongoTimeoutException MongoExecutionTimeoutException MongoOperationTimeoutException "
        "MongoWaitQueueFullException",
    ),
    build_rule(FailureKind.AUTH, "MongoDB's login", "com.mongodb.", "MongoSecurityException"),
    build_rule(
        FailureKind.CONFIG,
        "MongoDB's settings",
        "com.mongodb.",
        "MongoConfigurationException MongoClientException",
    ),
    build_rule(
        FailureKind.UNKNOWN,
        "MongoDB's words for what a server answers: no primary among them",
        "com.mongodb.",
        "MongoException MongoCommandException MongoServerException MongoQueryException",
    ),
    build_rule(
        ThrowableHint.VALUE,
        "MongoDB did not want a document",
        "com.mongodb.",
        "DuplicateKeyException MongoBulkWriteException MongoWriteException",
    ),
    build_rule(
        FailureKind.CONNECTIVITY,
        "HTTP and gRPC clients",
        "",
        "org.apache.http.* org.apache.hc.* okhttp3.* io.netty.* reactor.netty.* "
        "org.eclipse.jetty.* jakarta.ws.rs.ProcessingException javax.ws.rs.ProcessingException "
        "io.grpc.StatusException io.grpc.StatusRuntimeException "
        "com.google.api.client.http.HttpResponseException",
    ),
    build_rule(
        FailureKind.TIMEOUT,
        "HTTP clients that got no answer",
        "",
        "org.apache.http.conn.ConnectTimeoutException "
        "org.apache.http.conn.ConnectionPoolTimeoutException "
        "org.apache.hc.client5.http.ConnectTimeoutException io.netty.handler.timeout.* "
        "com.google.api.gax.rpc.DeadlineExceededException "
        "com.amazonaws.http.timers.* "
        "software.amazon.awssdk.core.exception.ApiCallAttemptTimeoutException "
        "software.amazon.awssdk.core.exception.ApiCallTimeoutException",
    ),
    build_rule(
        FailureKind.AUTH,
        "services that do not know us, or do not let us",
        "",
        "com.google.api.gax.rpc.PermissionDeniedException "
        "com.google.api.gax.rpc.UnauthenticatedException com.google.auth.* "
        "javax.ws.rs.NotAuthorizedException javax.ws.rs.ForbiddenException "
        "jakarta.ws.rs.NotAuthorizedException jakarta.ws.rs.ForbiddenException "
        "software.amazon.awssdk.services.sts.* software.amazon.awssdk.auth.* "
        "com.amazonaws.auth.* com.amazonaws.services.securitytoken.* "
        "org.apache.hadoop.security.*",
    ),
    build_rule(
        FailureKind.CONNECTIVITY,
        "AWS and Google that could not be asked",
        "",
        "com.amazonaws.AbortedException com.amazonaws.ResetException "
        "com.amazonaws.SdkClientException com.google.api.gax.rpc.UnavailableException "
        "software.amazon.awssdk.core.exception.AbortedException "
        "software.amazon.awssdk.core.exception.RetryableException "
        "software.amazon.awssdk.core.exception.SdkClientException",
    ),
    build_rule(
        FailureKind.RESOURCE,
        "services that have had enough",
        "",
        "com.google.api.gax.rpc.ResourceExhaustedException *ThroughputExceededException",
    ),
    build_rule(
        FailureKind.UNKNOWN,
        "AWS, Azure and Google: one class for every answer",
        "",
        "com.amazonaws.AmazonClientException com.amazonaws.AmazonServiceException "
        "com.amazonaws.services.s3.model.AmazonS3Exception "
        "software.amazon.awssdk.core.exception.SdkException "
        "software.amazon.awssdk.core.exception.SdkServiceException "
        "software.amazon.awssdk.services.s3.model.S3Exception "
        "com.azure.core.exception.HttpResponseException "
        "com.azure.storage.blob.models.BlobStorageException com.google.cloud.BaseServiceException "
        "com.google.cloud.bigquery.BigQueryException com.google.cloud.storage.StorageException "
        "com.google.api.client.googleapis.json.GoogleJsonResponseException "
        "com.google.api.gax.rpc.ApiException",
    ),
    build_rule(
        FailureKind.UNKNOWN,
        "Elasticsearch and OpenSearch: one class for every status",
        "",
        "org.elasticsearch.ElasticsearchException org.elasticsearch.ElasticsearchStatusException "
        "org.elasticsearch.client.ResponseException org.opensearch.OpenSearchException "
        "org.opensearch.OpenSearchStatusException org.opensearch.client.ResponseException "
        "co.elastic.clients.elasticsearch._types.ElasticsearchException",
    ),
    build_rule(
        FailureKind.CONNECTIVITY,
        "HDFS, HBase and ZooKeeper that are not there, or in another state",
        "",
        "org.apache.hadoop.ipc.* org.apache.hadoop.net.* org.apache.hadoop.hbase.* "
        "org.apache.hadoop.hdfs.* org.apache.zookeeper.*",
    ),
    build_rule(
        FailureKind.UNKNOWN,
        "sinks that say one thing of every failure of their writers",
        "",
        "com.wepay.kafka.connect.bigquery.exception.BigQueryConnectException "
        "com.wepay.kafka.connect.bigquery.exception.BigQueryStorageWriteApiConnectException "
        "com.snowflake.kafka.connector.internal.SnowflakeKafkaConnectorException "
        "net.snowflake.client.jdbc.SnowflakeSQLException net.snowflake.ingest.utils.SFException "
        "com.splunk.hecclient.HecException com.influxdb.exceptions.InfluxException "
        "org.influxdb.InfluxDBException org.neo4j.driver.exceptions.ClientException "
        "org.neo4j.driver.exceptions.DatabaseException org.hibernate.HibernateException "
        "org.hibernate.JDBCException org.hibernate.exception.GenericJDBCException",
    ),
    build_rule(
        ThrowableHint.VALUE,
        "Hibernate, below Debezium's JDBC sink, did not want a value",
        "org.hibernate.exception.",
        "ConstraintViolationException DataException",
    ),
    build_rule(
        FailureKind.CONNECTIVITY,
        "databases, queues and files behind a network",
        "",
        "com.datastax.oss.driver.api.core.AllNodesFailedException "
        "com.datastax.oss.driver.api.core.NoNodeAvailableException "
        "com.datastax.oss.driver.api.core.connection.* "
        "com.datastax.driver.core.exceptions.NoHostAvailableException "
        "com.rabbitmq.client.* org.apache.activemq.* com.ibm.mq.* com.ibm.msg.* com.jcraft.jsch.* "
        "org.apache.commons.net.* org.eclipse.paho.* net.schmizz.* "
        "org.hibernate.exception.LockAcquisitionException "
        "org.hibernate.exception.TransactionException "
        "org.neo4j.driver.exceptions.SessionExpiredException "
        "org.neo4j.driver.exceptions.TransientException",
    ),
)

# What a name alone gives away, of classes that nobody has read. It only ever forbids: an unknown
# class would do so too, but not tell whom to ask.
NAME_PATTERNS: Final[tuple[ThrowableRule, ...]] = (
    build_rule(FailureKind.TIMEOUT, "a name", "", "*TimeoutException *TimedOutException"),
    build_rule(
        FailureKind.CONNECTIVITY,
        "a name",
        "",
        "*ConnectException *ConnectionException *ConnectionFailedException *UnavailableException "
        "*DisconnectedException *ConnectionClosedException",
    ),
    build_rule(
        FailureKind.AUTH,
        "a name",
        "",
        "*AuthenticationException *AuthorizationException *AccessDeniedException "
        "*UnauthorizedException *CredentialsException *PermissionException *ForbiddenException",
    ),
    build_rule(
        FailureKind.RESOURCE,
        "a name",
        "",
        "*QuotaExceededException *ThrottlingException *TooManyRequestsException "
        "*OutOfMemoryException",
    ),
    build_rule(
        FailureKind.CONFIG,
        "a name",
        "",
        "*ConfigException *ConfigurationException",
    ),
)
