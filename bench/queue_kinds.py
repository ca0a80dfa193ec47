from typing import NamedTuple
from bench.playing import Kind
class K(NamedTuple):
    kind: Kind
    needs: str
KINDS={
 "pgmq":K(Kind("bench.peers.pgmq",("pgmq==1.1.4","asyncpg==0.32.0")),"postgres"),
 "pgmq_asyncpg":K(Kind("bench.peers.pgmq_asyncpg",("pgmq==1.1.4","asyncpg==0.32.0")),"postgres"),
 "pgqueuer":K(Kind("bench.peers.pgqueuer",("pgqueuer==1.6.0","asyncpg==0.32.0")),"postgres"),
 "procrastinate":K(Kind("bench.peers.procrastinate",("procrastinate==3.10.0",)),"postgres"),
 "litequeue":K(Kind("bench.peers.litequeue",("litequeue==0.9",)),""),
 "huey":K(Kind("bench.peers.huey",("huey==3.5.4",)),""),
 "persistqueue":K(Kind("bench.peers.persist_queue",("persist-queue==1.1.0",)),""),
}
