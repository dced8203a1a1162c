"""Meanings of exceptions of the JDK and of JDBC."""

from __future__ import annotations

from typing import Final

from offsetwatch.remedy.classify.throwables.kinds import (
    FailureKind,
    ThrowableHint,
    ThrowableRule,
    build_rule,
)

JVM: Final[tuple[ThrowableRule, ...]] = (
    build_rule(
        ThrowableHint.WRAPS,
        "made to hold another, or used for everything",
        "",
        "java.lang.Exception java.lang.RuntimeException java.lang.Throwable "
        "java.lang.reflect.InvocationTargetException "
        "java.lang.reflect.UndeclaredThrowableException "
        "java.security.PrivilegedActionException java.util.concurrent.CompletionException "
        "java.util.concurrent.ExecutionException",
    ),
    build_rule(
        ThrowableHint.CODE,
        "what a program that did not expect a value runs into",
        "java.lang.",
        "ArithmeticException ArrayIndexOutOfBoundsException ArrayStoreException "
        "ClassCastException IllegalArgumentException IndexOutOfBoundsException "
        "NegativeArraySizeException NullPointerException NumberFormatException "
        "StringIndexOutOfBoundsException",
    ),
    build_rule(
        ThrowableHint.CODE,
        "the same, of the JDK's other packages",
        "java.",
        "nio.BufferOverflowException nio.BufferUnderflowException util.EmptyStackException "
        "util.InputMismatchException util.MissingFormatArgumentException "
        "util.UnknownFormatConversionException",
    ),
    build_rule(
        ThrowableHint.VALUE,
        "a text that is no number, no date, no URL, or not in its character set",
        "java.",
        "net.MalformedURLException net.URISyntaxException "
        "nio.charset.CharacterCodingException nio.charset.MalformedInputException "
        "nio.charset.UnmappableCharacterException text.ParseException time.DateTimeException "
        "time.format.DateTimeParseException time.temporal.UnsupportedTemporalTypeException "
        "util.zip.DataFormatException",
    ),
    build_rule(
        FailureKind.CONNECTIVITY,
        "sockets, names and routes",
        "",
        "java.net.* java.nio.channels.* java.rmi.* jdk.internal.net.* sun.net.* sun.nio.ch.*",
    ),
    build_rule(
        FailureKind.CONNECTIVITY,
        "a stream that ended or broke: the network more often than the record. Debezium says that "
        "data cannot be read when a connection was cut, and the end of a stream is all it knows",
        "java.io.",
        "EOFException IOException InterruptedIOException UncheckedIOException SyncFailedException",
    ),
    build_rule(
        FailureKind.CONNECTIVITY,
        "names that a directory did not give",
        "",
        "javax.naming.* javax.jms.*",
    ),
    build_rule(
        FailureKind.TIMEOUT,
        "no answer in time",
        "java.",
        "net.SocketTimeoutException net.http.HttpTimeoutException "
        "net.http.HttpConnectTimeoutException util.concurrent.TimeoutException",
    ),
    build_rule(
        FailureKind.AUTH,
        "certificates, logins and permissions",
        "",
        "java.security.* javax.net.ssl.* javax.security.* sun.security.* org.ietf.jgss.* "
        "java.lang.SecurityException java.nio.file.AccessDeniedException "
        "java.net.HttpRetryException",
    ),
    build_rule(
        FailureKind.RESOURCE,
        "memory, threads, depth, disk and locks: of the worker, not of the record",
        "java.",
        "lang.OutOfMemoryError lang.StackOverflowError lang.InternalError "
        "lang.VirtualMachineError nio.file.FileSystemException nio.file.NoSuchFileException "
        "nio.file.FileSystemNotFoundException nio.file.FileAlreadyExistsException "
        "nio.file.DirectoryNotEmptyException nio.file.NotDirectoryException "
        "util.concurrent.RejectedExecutionException io.FileNotFoundException "
        "nio.file.ClosedFileSystemException util.concurrent.BrokenBarrierException",
    ),
    build_rule(
        FailureKind.CONFIG,
        "plugins that do not fit together, or are not there",
        "java.lang.",
        "AbstractMethodError BootstrapMethodError ClassCircularityError ClassFormatError "
        "ClassNotFoundException ExceptionInInitializerError IllegalAccessError "
        "IllegalAccessException IncompatibleClassChangeError InstantiationError "
        "InstantiationException LayerInstantiationException LinkageError NoClassDefFoundError "
        "NoSuchFieldError NoSuchFieldException NoSuchMethodError NoSuchMethodException "
        "TypeNotPresentException UnsatisfiedLinkError UnsupportedClassVersionError VerifyError "
        "module.FindException module.ResolutionException "
        "reflect.InaccessibleObjectException reflect.MalformedParametersException",
    ),
    build_rule(
        FailureKind.CONFIG,
        "services and character sets that are not installed",
        "java.",
        "util.ServiceConfigurationError nio.charset.UnsupportedCharsetException "
        "nio.charset.IllegalCharsetNameException io.UnsupportedEncodingException "
        "util.MissingResourceException util.regex.PatternSyntaxException",
    ),
    build_rule(
        FailureKind.FENCING,
        "the task is being stopped",
        "java.",
        "lang.InterruptedException lang.ThreadDeath util.concurrent.CancellationException",
    ),
    build_rule(
        FailureKind.UNKNOWN,
        "a component in a state that it should not be in: a closed client, an empty pool",
        "java.",
        "lang.AssertionError lang.Error lang.IllegalCallerException "
        "lang.IllegalMonitorStateException lang.IllegalStateException "
        "lang.IllegalThreadStateException lang.MatchException "
        "lang.UnsupportedOperationException util.ConcurrentModificationException "
        "util.NoSuchElementException util.zip.ZipException "
        "io.InvalidClassException io.NotSerializableException io.ObjectStreamException "
        "io.StreamCorruptedException",
    ),
)

# JDBC. A driver that throws no finer class than SQLException leaves open whether the record or the
# database was to blame: its SQLState is text, and text decides nothing here.
JDBC: Final[tuple[ThrowableRule, ...]] = (
    build_rule(
        ThrowableHint.VALUE,
        "the database read the value and did not want it",
        "java.sql.",
        "DataTruncation SQLDataException SQLIntegrityConstraintViolationException",
    ),
    build_rule(
        ThrowableHint.WRAPS,
        "one of a batch failed, and this does not know why",
        "java.sql.",
        "BatchUpdateException",
    ),
    build_rule(
        FailureKind.CONNECTIVITY,
        "the connection, or a condition of the database that passes: deadlocks among them",
        "java.sql.",
        "SQLNonTransientConnectionException SQLRecoverableException "
        "SQLTransactionRollbackException SQLTransientConnectionException SQLTransientException",
    ),
    build_rule(
        FailureKind.TIMEOUT, "a statement took too long", "java.sql.", "SQLTimeoutException"
    ),
    build_rule(
        FailureKind.AUTH,
        "no such user, or not allowed to",
        "java.sql.",
        "SQLInvalidAuthorizationSpecException",
    ),
    build_rule(
        FailureKind.CONFIG,
        "a table or a feature that is not there, or SQL that the database does not understand: "
        "every record would fail",
        "java.sql.",
        "SQLClientInfoException SQLFeatureNotSupportedException SQLSyntaxErrorException",
    ),
    build_rule(
        FailureKind.UNKNOWN,
        "a driver's word for everything",
        "",
        "java.sql.SQLException java.sql.SQLNonTransientException java.sql.SQLWarning "
        "org.postgresql.util.PSQLException com.microsoft.sqlserver.jdbc.SQLServerException "
        "oracle.jdbc.OracleDatabaseException com.ibm.db2.jcc.am.SqlException "
        "com.ibm.db2.jcc.am.BatchUpdateException org.sqlite.SQLiteException "
        "com.clickhouse.client.ClickHouseException",
    ),
    build_rule(
        FailureKind.CONNECTIVITY,
        "drivers and pools that lost the database",
        "",
        "com.mysql.cj.jdbc.exceptions.CommunicationsException "
        "com.mysql.cj.exceptions.CJCommunicationsException "
        "com.mysql.cj.exceptions.ConnectionIsClosedException "
        "com.mysql.cj.jdbc.exceptions.MySQLTransactionRollbackException "
        "com.mysql.cj.jdbc.exceptions.MySQLTimeoutException "
        "com.mysql.jdbc.exceptions.jdbc4.CommunicationsException "
        "com.mysql.jdbc.exceptions.jdbc4.MySQLNonTransientConnectionException "
        "com.ibm.db2.jcc.am.DisconnectNonTransientConnectionException "
        "com.ibm.db2.jcc.am.ClientRerouteException oracle.net.ns.* "
        "com.zaxxer.hikari.pool.* com.mchange.v2.resourcepool.*",
    ),
    build_rule(
        ThrowableHint.VALUE,
        "a driver's own class for a value, or a constraint, that it names as such",
        "",
        "com.mysql.cj.jdbc.exceptions.MysqlDataTruncation "
        "com.mysql.cj.exceptions.DataConversionException "
        "com.mysql.cj.exceptions.DataReadException com.mysql.cj.exceptions.DataTruncationException "
        "com.mysql.cj.exceptions.NumberOutOfRange "
        "com.mysql.jdbc.MysqlDataTruncation "
        "com.mysql.jdbc.exceptions.jdbc4.MySQLIntegrityConstraintViolationException "
        "com.ibm.db2.jcc.am.SqlDataException "
        "com.ibm.db2.jcc.am.SqlIntegrityConstraintViolationException",
    ),
)
