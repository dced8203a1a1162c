"""Schema of the sources: databases and files whose ends are read."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from offsetwatch.config.schema.types import ConfigSection, Duration, File, Folder, Name, Patterns


class SourceTls(ConfigSection):
    """TLS of the connection to a database. All files are PEM."""

    ca_file: File | None = None
    """The authorities to trust. Default: those of the operating system."""
    cert_file: File | None = None
    """Our certificate, for servers that require one."""
    key_file: File | None = None
    """Its key; default: cert_file contains the key."""
    verify: Literal["full", "ca", "none"] = "full"
    """full: the certificate must be of a trusted authority and name the host. ca: the authority
    alone is checked. none: the connection is encrypted and the server is not checked."""


class SourceConnectors(Patterns):
    """Connectors of one Connect cluster that read this source."""

    connect: Name
    """A name under connect."""


class SourceColumn(ConfigSection):
    """Statement that returns the end of one source partition, where it cannot be derived."""

    table: str = Field(min_length=1)
    """The table as it is in the source partition."""
    statement: str = Field(min_length=1)
    """A SELECT that returns one row with one value, the greatest one of the column that the
    connector's offset has."""


class Source(ConfigSection):
    """A database, or a file, that source connectors read. It is read, and never changed."""

    name: Name
    """The name of this source in metrics and messages."""
    kind: Literal["postgresql", "mysql", "sql", "file"]
    """postgresql: the end of the WAL and the replication slots, for Debezium. mysql: the end of the
    binlog of MySQL or MariaDB, for Debezium. sql: the greatest value of a column, for the JDBC
    source connector. file: the size of files on this machine, for FileStream."""
    dsn: SecretStr | None = None
    """The address with everything that is needed, as a URL: postgresql://user:password@host/name,
    mysql://user:password@host. For sql any URL of SQLAlchemy."""
    dsn_file: File | None = None
    """Instead of dsn: a file that contains it, read again at each new connection."""
    host: str | None = None
    """Instead of dsn: the host of the server."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """The port. Default: 5432 or 3306."""
    database: str | None = None
    """The database to connect to; on PostgreSQL the one that the connectors read."""
    user: str | None = None
    """A user of its own, that can read and nothing else."""
    password: SecretStr | None = None
    """The password of the user."""
    password_file: File | None = None
    """Instead of password; read again at each new connection."""
    tls: SourceTls | None = None
    """TLS of the connection. Default: encrypted if the server offers it, and not checked."""
    interval: Duration = Field(default=15.0, ge=1.0)
    """Interval of reads, one connection and one statement at a time. A statement may take two
    seconds."""
    connectors: list[SourceConnectors] = Field(min_length=1)
    """The connectors that read this source. Their classes must be those of the kind; what their
    configurations say of the server is compared with it."""
    columns: list[SourceColumn] = Field(default_factory=list)
    """sql: statements for tables whose end cannot be derived from the connector's settings."""
    folder: Folder | None = None
    """file: the folder on this machine that has the files, if their names on the workers lead
    elsewhere. The file's own name is looked up in it."""
