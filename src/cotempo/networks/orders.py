from __future__ import annotations
import math
from dataclasses import dataclass
import numpy as np
from cotempo.networks.evidence import *
from cotempo.networks.evidence import Evidence, refit
from cotempo.networks.parents import Fit, ParentSearch, LEAST_GAIN

class Order:
    """An order of the variables with the best parents found for each; moves one variable at a time."""
    def __init__(self, search, order, start=None):
        self.search=search
        d=len(order)
        self.order=list(order)
        self.fits=[None]*d
        self._index()
        for k,u in enumerate(self.order):
            self.fits[u]=search.fit(u,self.position<k,self.prefix[k],start[u] if start else search.required[u])
    def _index(self):
        d=len(self.order)
        self.position=np.empty(d,dtype=np.intp); self.position[self.order]=np.arange(d)
        self.prefix=[0]*(d+1)
        for k,u in enumerate(self.order): self.prefix[k+1]=self.prefix[k]|(1<<u)
    @property
    def score(self): return sum(f.score for f in self.fits)
    def copy(self):
        new=object.__new__(Order); new.search=self.search; new.order=list(self.order); new.fits=list(self.fits); new._index(); return new

    def move(self, v):
        """Try v at all positions; keep the best. Returns gain."""
        now=int(self.position[v]); d=len(self.order)
        best=(LEAST_GAIN,now,None,0)
        for walk in (self._later(v,now),self._earlier(v,now)):
            changes=[]
            total=0.
            for place,lost,own in walk:
                if lost is not None:
                    w,fit=lost
                    total+=fit.score-self.fits[w].score
                    changes.append((w,fit))
                gain=total+own.score-self.fits[v].score
                if gain>best[0]:
                    best=(gain,place,own,list(changes))
        gain,place,own,changes=best
        if own is None: return 0.
        for w,fit in changes: self.fits[w]=fit
        self.fits[v]=own
        self.order.pop(now); self.order.insert(place,v)
        self._index()
        return gain
    def _later(self,v,now):
        own=self.fits[v]; bit=1<<v
        for k in range(now+1,len(self.order)):
            w=self.order[k]; lost=None
            if v in self.search.required[w]: return
            fit=self.fits[w]
            if v in fit.parents:
                before=self.position<k; before[v]=False
                lost=(w,self.search.fit(w,before,self.prefix[k]&~bit,tuple(p for p in fit.parents if p!=v)))
            event = lost
            if w in own.tempting:
                before=self.position<=k; before[v]=False
                own=self.search.fit(v,before,self.prefix[k+1]&~bit,own.parents)
                event=True
            if event: yield k,lost,own
    def _earlier(self,v,now):
        own=self.fits[v]; bit=1<<v
        for k in range(now-1,-1,-1):
            w=self.order[k]; gained=None
            if w in self.search.required[v]: return
            fit=self.fits[w]
            if v in fit.tempting:
                before=self.position<k; before[v]=True
                gained=(w,self.search.fit(w,before,self.prefix[k]|bit,fit.parents))
            event=gained
            if w in own.parents:
                own=self.search.fit(v,self.position<k,self.prefix[k],tuple(p for p in own.parents if p!=w))
                event=True
            if event: yield k,gained,own

    def sweep(self,rng):
        total=0
        while True:
            gain=sum(self.move(int(v)) for v in rng.permutation(len(self.order)))
            if gain<=LEAST_GAIN: return total
            total+=gain
    def reorder(self,rng):
        """another topological order of the same graph"""
        d=len(self.order)
        parents=[set(p for p in f.parents if p<d) for f in self.fits]
        order=[]; left=set(range(d)); pr=rng.random(d)
        indeg=[len(p) for p in parents]; kids=[[] for _ in range(d)]
        for u in range(d):
            for p in parents[u]: kids[p].append(u)
        ready=[u for u in range(d) if indeg[u]==0]
        while ready:
            u=ready.pop(int(rng.integers(len(ready)))); order.append(u)
            for c in kids[u]:
                indeg[c]-=1
                if indeg[c]==0: ready.append(c)
        self.order=order; self._index()
        for k,u in enumerate(order):
            f=self.fits[u]
            if any(self.prefix[k]>>t&1 for t in f.tempting):
                self.fits[u]=self.search.fit(u,self.position<k,self.prefix[k],f.parents)
    def parents(self): return [f.parents for f in self.fits]

def innovation_order(gram,d,scaled):
    inn=gram[:d,:d]
    if len(gram)>d:
        inn=inn-gram[:d,d:]@np.linalg.solve(gram[d:,d:]+1e-9*np.trace(gram)/len(gram)*np.eye(len(gram)-d),gram[d:,:d])
    if scaled:
        s=np.sqrt(inn.diagonal()); inn=inn/np.outer(s,s)
    inn=inn.copy(); order=[]; piv=[]
    left=np.ones(d,bool)
    for _ in range(d):
        v=int(np.where(left,inn.diagonal(),np.inf).argmin()); order.append(v); left[v]=False; piv.append(inn[v,v])
        inn=inn-np.outer(inn[:,v],inn[v])/inn[v,v]
    return order,np.array(piv)

def make_search(ev,d):
    m=len(ev.gram); allowed=np.ones((d,m),bool); allowed[np.arange(d),np.arange(d)]=False
    return ParentSearch(ev,allowed,[()]*d)

def learn(gram,n,d,rng,gamma=1.,mode="penalty",passes=4,tries=3,verbose=False):
    m=len(gram); best=None
    for kind in ("free","equal"):
        order,piv=innovation_order(gram,d,kind=="free")
        order_eq,piv=innovation_order(gram,d,False)
        a=.5 if kind=="free" else 50.
        b=a*piv.mean()/n
        if mode=="penalty": price=np.full(m,(math.log(n)+2*gamma*math.log(m))/2); prec=0.
        else: price=np.full(m,math.log(d)); prec=4.
        ev=Evidence(gram,n,d,a,b,price,prec)
        start=None
        for ps in range(passes):
            s=make_search(ev,d)
            o=Order(s,order,start)
            o.sweep(rng)
            fails=0
            while fails<tries:
                p=o.copy(); before=o.score
                p.reorder(rng); p.sweep(rng)
                if p.score>before+1e-6: fails=0
                else: fails+=1
                o=p
            order=o.order; parents=o.parents()
            new=refit(ev,parents)
            if verbose: print(kind,ps,ev.shape,ev.scale,o.score,ev.total(parents),new.total(parents),sum(map(len,parents)),len(s._known))
            done = start==parents
            start=parents
            ev=new
            if done: break
        total=ev.total(parents)
        if best is None or total>best[0]: best=(total,parents,ev,order,kind)
    return best
def within(parents,d):
    W=np.zeros((d,d))
    for j,S in enumerate(parents):
        for s in S:
            if s<d: W[s,j]=1
    return W
